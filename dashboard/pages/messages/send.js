// The dialog that sends a message: a new one, or one like another with changes.

import { html, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { FormDialog } from '../../lib/form.js';
import { messages as cli } from '../../lib/lines.js';
import { messagePage } from '../../lib/links.js';
import { does } from '../../lib/message.js';
import { Field, useToast } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.sending;
/** What the server puts in place of a hidden value. */
const HIDDEN = '[redacted]';
const EMPTY = { topic: '', kind: 'json', body: '{}', queue: '', key: '', priority: '', delay: '', dedupe: '', retries: '', timeout: '', transport: '', headers: '' };
const TYPES = { json: 'application/json', text: null };

/** Names and values of headers, one per line; the first line that is none is answered as a text. */
function headersOf(lines) {
  const headers = {};
  for (const written of lines.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const cut = written.indexOf(':');
    if (cut < 1) return written;
    headers[written.slice(0, cut).trim()] = written.slice(cut + 1).trim();
  }
  return headers;
}

/** What is wrong with the fields before the server is asked. */
function wrongOf(fields, changed) {
  const wrong = {};
  if (fields.kind === 'json' && changed.body) {
    try { JSON.parse(fields.body); } catch (error) { wrong.body = text.badJson(error.message); }
  }
  if (changed.body && fields.body.includes(HIDDEN)) wrong.body = text.holdsHidden;
  const headers = headersOf(fields.headers);
  if (typeof headers === 'string') wrong.headers = text.badHeader(headers);
  else if (Object.values(headers).includes(HIDDEN) && changed.headers) wrong.headers = text.holdsHidden;
  return wrong;
}

/** The request; JSON goes as it was written, so that big numbers stay exact. */
function requestOf(fields, changed) {
  const request = {};
  for (const name of ['topic', 'queue', 'key', 'delay', 'dedupe', 'timeout', 'transport']) if (fields[name].trim() !== '') request[name] = fields[name].trim();
  if (fields.priority !== '') request.priority = Number(fields.priority);
  if (fields.retries !== '') request.retry = Number(fields.retries);
  if (changed.headers && fields.headers.trim()) request.headers = headersOf(fields.headers);
  if (changed.body && fields.kind !== 'none') {
    if (fields.kind === 'base64') request.base64 = fields.body.trim();
    else request.text = fields.body;
    if (TYPES[fields.kind]) request.content_type = TYPES[fields.kind];
  }
  return request;
}

/** The same as a line for the shell. */
function shellLine(fields) {
  const headers = headersOf(fields.headers);
  return cli.publish({ ...fields, headers: typeof headers === 'string' ? {} : headers });
}

function Content({ fields, set, wrong, like }) {
  return html`<div class="field"><span>${text.kind}</span><span class="choice">${Object.entries(text.kinds).map(([id, label]) => html`<button type="button" key=${id} aria-pressed=${fields.kind === id} onClick=${() => set({ kind: id })}>${label}</button>`)}</span></div>
    ${like?.redacted ? html`<p class="notice warn">${text.hidden}</p>` : null}
    ${fields.kind === 'none' ? null : html`<${Field} label=${text.body} error=${wrong.body ?? wrong.json ?? wrong.text ?? wrong.base64} hint=${like ? text.keep : null}><textarea rows="8" spellcheck=${false} value=${fields.body} onInput=${(event) => set({ body: event.target.value })}></textarea><//>`}`;
}

/** `like`: {id, fields, redacted, truncated} of the message to begin with. */
export function Send({ like, onClose, onDone }) {
  const start = { ...EMPTY, ...like?.fields };
  const [fields, setFields] = useState(start);
  const toast = useToast();
  const set = (changes) => setFields((before) => ({ ...before, ...changes }));
  const changed = { body: !like || fields.body !== start.body || fields.kind !== start.kind, headers: !like || fields.headers !== start.headers };
  const mine = wrongOf(fields, changed);
  const send = async () => {
    const request = requestOf(fields, changed);
    const sent = like ? await does.clone(like.id, request) : await post('/messages', request);
    toast({ text: sent.duplicate_of ? text.duplicate : text.sent });
    onDone?.();
    if (sent.id) location.hash = messagePage(sent.duplicate_of ?? sent.id);
  };
  const input = (name, rest = {}) => html`<input value=${fields[name]} onInput=${(event) => set({ [name]: event.target.value })} ...${rest} />`;
  return html`<${FormDialog} wide title=${like ? text.cloneTitle : text.title} button=${text.button} ready=${fields.topic.trim() !== '' && Object.keys(mine).length === 0} cli=${shellLine(fields)} onDo=${send} onClose=${onClose}>${(said) => {
    const wrong = { ...said, ...mine };
    return html`<${Field} label=${text.topic} hint=${text.topicHint} error=${wrong.topic}>${input('topic', { autofocus: !like, required: true })}<//>
      ${like?.truncated ? html`<p class="notice">${text.truncated}</p>` : html`<${Content} fields=${fields} set=${set} wrong=${wrong} like=${like} />`}
      <div class="columns">
        <${Field} label=${text.queue} hint=${text.queueHint} error=${wrong.queue}>${input('queue')}<//>
        <${Field} label=${text.key} hint=${text.keyHint} error=${wrong.key}>${input('key')}<//>
        <${Field} label=${text.delay} hint=${text.delayHint} error=${wrong.delay}>${input('delay')}<//>
        <${Field} label=${text.priority} hint=${text.priorityHint} error=${wrong.priority}>${input('priority', { type: 'number', min: 0, max: 9 })}<//>
      </div>
      <details><summary>${text.more}</summary><div class="columns">
        <${Field} label=${text.dedupe} hint=${text.dedupeHint} error=${wrong.dedupe}>${input('dedupe')}<//>
        <${Field} label=${text.retries} error=${wrong.retry}>${input('retries', { type: 'number', min: 0 })}<//>
        <${Field} label=${text.timeout} error=${wrong.timeout}>${input('timeout', { placeholder: '30s' })}<//>
        <${Field} label=${text.transport} hint=${text.transportHint} error=${wrong.transport}>${input('transport')}<//>
      </div>
      <${Field} label=${text.headers} hint=${text.headersHint} error=${wrong.headers}><textarea rows="3" spellcheck=${false} value=${fields.headers} onInput=${(event) => set({ headers: event.target.value })}></textarea><//></details>`;
  }}<//>`;
}
