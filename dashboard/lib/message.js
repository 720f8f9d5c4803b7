// What is said about a message in more than one place, and what can be done to it.

import { html } from './html.js';
import { part, post, remove } from './api.js';
import { Badge, Progress, State } from './ui.js';
import { messages as text } from '../texts.js';

/** The events after which a list of messages is loaded again. */
export const ON = [
  'message.enqueued', 'message.dead', 'message.commanded', 'message.relayed', 'attempt.started', 'attempt.succeeded', 'attempt.failed', 'attempt.timed_out', 'attempt.lost', 'attempt.yielded', 'lease.lost', 'leases.rescued', 'missed',
];

/** The phase of a message, how far it is, and that it was asked to stop. */
export function Phase({ message }) {
  const percent = message.phase === 'running' ? message.progress?.percent : null;
  return html`<span class="flags"><${State} word=${message.phase} title=${message.dead ? String(message.dead) : null} />
    ${message.cancel_requested && message.state === 'running' ? html`<${Badge} tone="warn">${text.cancelling}<//>` : null}
    ${percent === null || percent === undefined ? null : html`<${Progress} value=${percent} label=${`${percent} %`} />`}</span>`;
}

/** `2 of 5`. */
export const attempts = ({ attempt, attempts_max: most }) => text.attempt(attempt, most);

const at = (id, verb) => `/messages/${part(id)}/${verb}`;

/** What can be done to a message. */
export const does = {
  cancel: (id, body) => post(at(id, 'cancel'), body),
  redrive: (id, body) => post(at(id, 'redrive'), body),
  reschedule: (id, body) => post(at(id, 'reschedule'), body),
  reassign: (id, body) => post(at(id, 'reassign'), body),
  clone: (id, body) => post(at(id, 'clone'), body),
  delete: (id) => remove(`/messages/${part(id)}`),
  discard: (id) => remove(`/messages/${part(id)}`),
};
