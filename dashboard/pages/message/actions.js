// Message actions: the buttons of the page, and the formats in which a message can be copied.

import { html, useState } from '../../lib/html.js';
import { FormDialog } from '../../lib/form.js';
import { shellWord } from '../../lib/shell_command.js';
import { stringify } from '../../lib/exact_json.js';
import { messages as cli } from '../../lib/cli_commands.js';
import { messageActions } from '../../lib/message.js';
import { Panel } from '../../lib/panel.js';
import { go } from '../../lib/route.js';
import { ActionButton, Field, useToast } from '../../lib/ui.js';
import { CHANGES } from '../messages/bulk_fields.js';
import { Send } from '../messages/send.js';
import { message, shell } from '../../texts.js';
import { PlannedActions, isPlanned } from './planned.js';

const text = message.act;
const ENDED = ['done', 'dead', 'cancelled'];
const ALLOWED = {
  redrive: (state) => ENDED.includes(state),
  cancel: (state) => !ENDED.includes(state),
  reschedule: (state) => state === 'pending',
  reassign: (state) => state === 'pending',
  delete: (state) => state !== 'running',
};

/** Returns the payload as text to edit. */
function bodyText(body) {
  if (body.json !== null && body.json !== undefined) return { kind: 'json', body: stringify(body.json) };
  if (body.text !== null && body.text !== undefined) return { kind: 'text', body: body.text };
  return body.base64 ? { kind: 'base64', body: body.base64 } : { kind: 'none', body: '' };
}

/** Initial fields of the send dialog for a copy of a message. */
const cloneFields = (of) => ({
  id: of.id,
  truncated: of.body.truncated,
  redacted: Array.isArray(of.body.redacted) ? of.body.redacted.length > 0 : of.body.redacted,
  fields: {
    topic: of.topic,
    key: of.key ?? '',
    queue: of.queue.startsWith('~') ? '' : of.queue,
    priority: String(of.priority),
    headers: Object.entries(of.headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n'),
    ...bodyText(of.body),
  },
});

const DONE = {
  redrive: 'redriven',
  cancel: 'cancelled',
  reschedule: 'rescheduled',
  reassign: 'reassigned',
  delete: 'deleted',
};

function ConfirmAction({ action, of, onClose, onDone }) {
  const toast = useToast();
  const change = CHANGES[action];
  const [reason, setReason] = useState('');
  const [value, setValue] = useState(() => change?.first(of));
  const body = { ...change?.body(value), ...(reason.trim() ? { reason: reason.trim() } : {}) };
  const run = async () => {
    const response =
      action === 'delete' ? await messageActions.delete(of.id) : await messageActions[action](of.id, body);
    toast({ text: response?.result === 'requested' ? text.requested : text[DONE[action]] });
    onDone(action);
  };
  const options = { ...change?.line(value), reason: reason.trim() };
  const kind = action === 'delete' || action === 'cancel' ? 'danger' : 'primary';
  return html`<${FormDialog}
    title=${text[`${action}Title`]}
    about=${text[`${action}Text`]}
    button=${text[action]}
    kind=${kind}
    ready=${!change || change.body(value) !== null}
    cli=${cli.some(action, [of.id], options)}
    onDo=${run}
    onClose=${onClose}
  >
    ${(wrong) => html`
      ${change ? html`<${change.Fields} value=${value} onChange=${setValue} wrong=${wrong} />` : null}
      ${action === 'delete'
        ? null
        : html`<${Field} label=${text.reason} hint=${text.reasonHint} error=${wrong.reason}>
            <input maxlength="500" value=${reason} onInput=${(event) => setReason(event.target.value)} />
          <//>`}
    `}
  <//>`;
}

/** Texts that can be copied, by name. */
function copyFormats(of) {
  const { kind, body } = bodyText(of.body);
  const { redacted } = cloneFields(of);
  return {
    id: of.id,
    show: cli.show(of.id),
    why: cli.why(of.id),
    publish: cli.publish({
      topic: of.topic,
      kind,
      body: kind === 'json' ? stringify(of.body.json, 0) : body,
      isWhole: !redacted && !of.body.truncated,
      key: of.key,
      queue: of.queue.startsWith('~') ? null : of.queue,
      priority: of.priority,
    }),
    curl:
      `curl -H ${shellWord('Authorization: Bearer TOKEN')} ` +
      `${shellWord(new URL(`./api/v1/messages/${of.id}`, location.href.split('#')[0]).href)}`,
    json: stringify(of),
  };
}

function CopyAs({ of }) {
  const toast = useToast();
  const put = async (value, close) => {
    try {
      await navigator.clipboard.writeText(value);
      toast({ text: shell.copied });
    } catch {
      /* not allowed here */
    }
    close();
  };
  return html`<${Panel} label=${text.copy}>
    ${(close) =>
      html`<ul>
        ${Object.entries(copyFormats(of)).map(
          ([name, value]) =>
            html`<li key=${name}>
              <button type="button" class="quiet" onClick=${() => put(value, close)}>
                <span>${text.copies[name]}</span>
                <span class="faint mono clip">${value.slice(0, 80)}</span>
              </button>
            </li>`,
        )}
      </ul>`}
  <//>`;
}

/** Whether only the server may publish to the topic. */
const isOwn = (of) => of.topic.startsWith('punctual.');

export function Actions({ of, onDone }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const done = (action) => {
    if (action === 'delete') go(['messages']);
    else onDone();
  };
  const button = (action, kind = '') => {
    const allowed = ALLOWED[action](of.state);
    return html`<${ActionButton}
      kind=${kind}
      disabled=${!allowed}
      title=${allowed ? null : text.refused[action]}
      cli=${cli.some(action, [of.id])}
      onClick=${() => setOpen(action)}
    >
      ${text[action]}
    <//>`;
  };
  return html`
    ${isPlanned(of) ? html`<${PlannedActions} of=${of} onDone=${onDone} />` : null}
    ${button('redrive', of.state === 'dead' ? 'primary' : '')}
    ${button('cancel')}
    ${button('reschedule')}
    ${button('reassign')}
    <${ActionButton}
      disabled=${isOwn(of)}
      title=${isOwn(of) ? text.refused.clone : null}
      cli=${copyFormats(of).publish}
      onClick=${() => setOpen('clone')}
    >
      ${text.clone}
    <//>
    ${button('delete')}
    <${CopyAs} of=${of} />
    ${open === 'clone'
      ? html`<${Send} like=${cloneFields(of)} onClose=${close} />`
      : open
        ? html`<${ConfirmAction} action=${open} of=${of} onClose=${close} onDone=${done} />`
        : null}
  `;
}
