// Message content: JSON, text or bytes, with a note on redacted or truncated parts.

import { html } from '../../lib/html.js';
import { Copy } from '../../lib/copy.js';
import { Json } from '../../lib/json.js';
import { bytes } from '../../lib/number.js';
import { Card } from '../../lib/ui.js';
import { message } from '../../texts.js';

const text = message.body;
/** Returns the kind of the payload; JSON may itself be null. */
const kindOf = (body) =>
  body.json !== null && body.json !== undefined
    ? 'json'
    : body.text !== null && body.text !== undefined
      ? 'text'
      : body.base64
        ? 'base64'
        : null;
const isHidden = (body) => (Array.isArray(body.redacted) ? body.redacted.length > 0 : body.redacted);

function Shown({ body }) {
  const kind = kindOf(body);
  if (kind === 'json') return html`<${Json} value=${body.json} />`;
  if (kind === null) return html`<p class="faint">${text.none}</p>`;
  return html`
    ${kind === 'base64' ? html`<p class="faint">${text.base64}</p>` : null}
    <div class="json"><div class="tools"><${Copy} text=${body[kind]} /></div><pre tabindex="0">${body[kind]}</pre></div>
  `;
}

export const Content = ({ body, size, title = text.title }) => html`<${Card}
  title=${title}
  note=${[body.content_type, size === undefined ? null : bytes(size)].filter(Boolean).join(' · ')}
>
  ${isHidden(body) ? html`<p class="notice">${text.hidden}</p>` : null}
  ${body.truncated ? html`<p class="notice warn">${text.truncated}</p>` : null}
  <${Shown} body=${body} />
<//>`;
