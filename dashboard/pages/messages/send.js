// Send dialog: a new message, or a copy of a message with changes.

import { html, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { FormDialog } from '../../lib/form.js';
import { messages as cli } from '../../lib/cli_commands.js';
import { messagePage } from '../../lib/links.js';
import { messageActions } from '../../lib/message.js';
import { Field, useToast } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.sending;
/** Text that the server puts in place of a redacted value. */
const HIDDEN = '[redacted]';
const EMPTY = {
  topic: '',
  kind: 'json',
  body: '{}',
  queue: '',
  key: '',
  priority: '',
  delay: '',
  dedupe: '',
  retries: '',
  timeout: '',
  transport: '',
  headers: '',
};
const TYPES = { json: 'application/json', text: null };

/** Parses headers, one per line; returns the first invalid line as a string. */
function parseHeaders(lines) {
  const headers = {};
  for (const written of lines
    .split('\n')
    .map((one) => one.trim())
    .filter(Boolean)) {
    const cut = written.indexOf(':');
    if (cut < 1) return written;
    headers[written.slice(0, cut).trim()] = written.slice(cut + 1).trim();
  }
  return headers;
}

/** Problems of the fields that the browser can detect. */
function validationErrors(fields, changed) {
  const wrong = {};
  if (fields.kind === 'json' && changed.body) {
    try {
      JSON.parse(fields.body);
    } catch (error) {
      wrong.body = text.badJson(error.message);
    }
  }
  if (changed.body && fields.body.includes(HIDDEN)) wrong.body = text.holdsHidden;
  const headers = parseHeaders(fields.headers);
  if (typeof headers === 'string') wrong.headers = text.badHeader(headers);
  else if (Object.values(headers).includes(HIDDEN) && changed.headers) wrong.headers = text.holdsHidden;
  return wrong;
}

/** Body of the request; JSON is sent as typed, so that large numbers stay exact. */
function requestBody(fields, changed) {
  const request = {};
  for (const name of ['topic', 'queue', 'key', 'delay', 'dedupe', 'timeout', 'transport'])
    if (fields[name].trim() !== '') request[name] = fields[name].trim();
  if (fields.priority !== '') request.priority = Number(fields.priority);
  if (fields.retries !== '') request.retry = Number(fields.retries);
  if (changed.headers && fields.headers.trim()) request.headers = parseHeaders(fields.headers);
  if (changed.body && fields.kind !== 'none') {
    if (fields.kind === 'base64') request.base64 = fields.body.trim();
    else request.text = fields.body;
    if (TYPES[fields.kind]) request.content_type = TYPES[fields.kind];
  }
  return request;
}

/** Returns the CLI command. */
function cliCommand(fields) {
  const headers = parseHeaders(fields.headers);
  return cli.publish({ ...fields, headers: typeof headers === 'string' ? {} : headers });
}

function Content({ fields, set, wrong, like }) {
  return html`
    <div class="field">
      <span>${text.kind}</span>
      <span class="choice">
        ${Object.entries(text.kinds).map(
          ([id, label]) =>
            html`<button type="button" key=${id} aria-pressed=${fields.kind === id} onClick=${() => set({ kind: id })}>
              ${label}
            </button>`,
        )}
      </span>
    </div>
    ${like?.redacted ? html`<p class="notice warn">${text.hidden}</p>` : null}
    ${fields.kind === 'none'
      ? null
      : html`<${Field}
          label=${text.body}
          error=${wrong.body ?? wrong.json ?? wrong.text ?? wrong.base64}
          hint=${like ? text.keep : null}
        >
          <textarea
            rows="8"
            spellcheck=${false}
            value=${fields.body}
            onInput=${(event) => set({ body: event.target.value })}
          ></textarea>
        <//>`}
  `;
}

/** `like`: {id, fields, redacted, truncated} of the message to copy. */
export function Send({ like, onClose, onDone }) {
  const start = { ...EMPTY, ...like?.fields };
  const [fields, setFields] = useState(start);
  const toast = useToast();
  const set = (changes) => setFields((before) => ({ ...before, ...changes }));
  const changed = {
    body: !like || fields.body !== start.body || fields.kind !== start.kind,
    headers: !like || fields.headers !== start.headers,
  };
  const mine = validationErrors(fields, changed);
  const send = async () => {
    const request = requestBody(fields, changed);
    const sent = like ? await messageActions.clone(like.id, request) : await post('/messages', request);
    toast({ text: sent.duplicate_of ? text.duplicate : text.sent });
    onDone?.();
    if (sent.id) location.hash = messagePage(sent.duplicate_of ?? sent.id);
  };
  const input = (name, rest = {}) =>
    html`<input value=${fields[name]} onInput=${(event) => set({ [name]: event.target.value })} ...${rest} />`;
  return html`<${FormDialog}
    wide
    title=${like ? text.cloneTitle : text.title}
    button=${text.button}
    ready=${fields.topic.trim() !== '' && Object.keys(mine).length === 0}
    cli=${cliCommand(fields)}
    onDo=${send}
    onClose=${onClose}
  >
    ${(fromServer) => {
      const wrong = { ...fromServer, ...mine };
      return html`
        <${Field} label=${text.topic} hint=${text.topicHint} error=${wrong.topic}>
          ${input('topic', { autofocus: !like, required: true })}
        <//>
        ${like?.truncated
          ? html`<p class="notice">${text.truncated}</p>`
          : html`<${Content} fields=${fields} set=${set} wrong=${wrong} like=${like} />`}
        <div class="columns">
          <${Field} label=${text.queue} hint=${text.queueHint} error=${wrong.queue}>${input('queue')}<//>
          <${Field} label=${text.key} hint=${text.keyHint} error=${wrong.key}>${input('key')}<//>
          <${Field} label=${text.delay} hint=${text.delayHint} error=${wrong.delay}>${input('delay')}<//>
          <${Field} label=${text.priority} hint=${text.priorityHint} error=${wrong.priority}>
            ${input('priority', { type: 'number', min: 0, max: 9 })}
          <//>
        </div>
        <details>
          <summary>${text.more}</summary>
          <div class="columns">
            <${Field} label=${text.dedupe} hint=${text.dedupeHint} error=${wrong.dedupe}>${input('dedupe')}<//>
            <${Field} label=${text.retries} error=${wrong.retry}>${input('retries', { type: 'number', min: 0 })}<//>
            <${Field} label=${text.timeout} error=${wrong.timeout}>${input('timeout', { placeholder: '30s' })}<//>
            <${Field} label=${text.transport} hint=${text.transportHint} error=${wrong.transport}>
              ${input('transport')}
            <//>
          </div>
          <${Field} label=${text.headers} hint=${text.headersHint} error=${wrong.headers}>
            <textarea
              rows="3"
              spellcheck=${false}
              value=${fields.headers}
              onInput=${(event) => set({ headers: event.target.value })}
            ></textarea>
          <//>
        </details>
      `;
    }}
  <//>`;
}
