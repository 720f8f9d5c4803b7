// Message components shared by lists and the page of a message: phase, attempts, and API calls.

import { html } from './html.js';
import { pathSegment, post, remove } from './api.js';
import { Badge, Progress, StateBadge } from './ui.js';
import { messages as text } from '../texts.js';

/** Events after which a list of messages is reloaded. */
export const ON = [
  'message.enqueued',
  'message.dead',
  'message.changed',
  'message.relayed',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
  'attempt.ended_early',
  'lease.lost',
  'leases.rescued',
  'missed',
];

/** Phase of a message, its progress, and whether it was asked to stop. */
export function Phase({ message }) {
  const percent = message.phase === 'running' ? message.progress?.percent : null;
  return html`<span class="flags">
    <${StateBadge} word=${message.phase} title=${message.dead ? String(message.dead) : null} />
    ${message.cancel_requested && message.state === 'running'
      ? html`<${Badge} tone="warn">${text.cancelling}<//>`
      : null}
    ${percent === null || percent === undefined ? null : html`<${Progress} value=${percent} label=${`${percent} %`} />`}
  </span>`;
}

/** `2 of 5`. */
export const attempts = ({ attempt, attempts_max: most }) => text.attempt(attempt, most);

const at = (id, verb) => `/messages/${pathSegment(id)}/${verb}`;

/** API calls of a message. */
export const messageActions = {
  cancel: (id, body) => post(at(id, 'cancel'), body),
  redrive: (id, body) => post(at(id, 'redrive'), body),
  reschedule: (id, body) => post(at(id, 'reschedule'), body),
  reassign: (id, body) => post(at(id, 'reassign'), body),
  clone: (id, body) => post(at(id, 'clone'), body),
  delete: (id) => remove(`/messages/${pathSegment(id)}`),
  discard: (id) => remove(`/messages/${pathSegment(id)}`),
};
