// Operation of the API: parameters, responses, a curl command, and a form that sends GET requests.

import { html, useState } from '../lib/html.js';
import { Copy } from '../lib/copy.js';
import { address, bounds, curl, resolve, sample, typeOf } from './document.js';
import { Schema } from './schema.js';
import { InlineCode } from './inline_code.js';
import { reference as text } from '../texts/reference.js';

/** Types of endless responses, which cannot be shown. */
const ENDLESS = ['text/event-stream'];
/** Largest number of characters shown of a response. */
const SHOWN = 20_000;

function Code({ children }) {
  return html`<div class="code"><pre tabindex="0">${children}</pre><${Copy} text=${children} /></div>`;
}

function Parameters({ list, document }) {
  return html`
    <h3>${text.parameters}</h3>
    <ul class="fields">
      ${list.map((one) => {
        const schema = resolve(document, one.schema);
        return html`<li key=${one.name}>
          <div class="field-line">
            <code class="field-name">${one.name}</code>
            <span class="faint mono">${typeOf(one.schema)}</span>
            <span class="badge mute">${text.where[one.in]}</span>
            ${one.required ? html`<span class="badge mute">${text.required}</span>` : null}
          </div>
          ${one.description ? html`<p><${InlineCode} text=${one.description} /></p>` : null}
          ${schema.enum
            ? html`<p class="faint">
                ${text.values} ${schema.enum.map((value) => html`<code>${String(value)}</code> `)}
              </p>`
            : null}
          ${bounds(schema) ? html`<p class="faint">${bounds(schema)}</p>` : null}
        </li>`;
      })}
    </ul>
  `;
}

const toneOf = (status) => (status < '300' ? 'good' : status < '500' ? 'warn' : 'bad');

function Responses({ list, document }) {
  return html`
    <h3>${text.responses}</h3>
    <ul class="responses">
      ${list.map(
        (one) => html`<li key=${one.status}>
          ${one.schema && one.status < '300'
            ? html`<details>
                <summary>
                  <span class="badge ${toneOf(one.status)}">${one.status}</span> <${InlineCode}
                    text=${one.about}
                  /> <span class="faint mono">${typeOf(one.schema)}</span>
                </summary>
                <${Schema} schema=${one.schema} document=${document} />
              </details>`
            : html`<span class="badge ${toneOf(one.status)}">${one.status}</span> <${InlineCode} text=${one.about} />`}
        </li>`,
      )}
    </ul>
  `;
}

/** Form that sends the request with the session of the browser. */
function Try({ one }) {
  const given = one.parameters.filter((parameter) => parameter.in === 'path' || parameter.in === 'query');
  const [values, setValues] = useState({});
  const [response, setResponse] = useState(null);
  const [busy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    const began = performance.now();
    try {
      const received = await fetch(`..${address(one, values)}`, {
        headers: { accept: 'application/json' },
        credentials: 'same-origin',
      });
      const content = await received.text();
      let shown = content;
      try {
        shown = JSON.stringify(JSON.parse(content), null, 2);
      } catch {
        /* not JSON: shown as it is */
      }
      setResponse({
        status: String(received.status),
        took: Math.round(performance.now() - began),
        text: shown.length > SHOWN ? `${shown.slice(0, SHOWN)}\n…` : shown,
      });
    } catch {
      setResponse({ status: '', took: 0, text: text.disconnected });
    }
    setBusy(false);
  };
  return html`<details>
    <summary>${text.try}</summary>
    <form class="try" onSubmit=${send}>
      ${given.map(
        (parameter) => html`<label key=${parameter.name}>
          <code>${parameter.name}</code>
          <input
            required=${parameter.required}
            value=${values[parameter.name] ?? ''}
            onInput=${(event) => setValues({ ...values, [parameter.name]: event.target.value })}
            autocomplete="off"
            spellcheck="false"
          />
        </label>`,
      )}
      <div class="inline">
        <button class="primary" disabled=${busy} aria-busy=${busy}>${busy ? text.sending : text.send}</button>
        <span class="faint">${text.tryHint}</span>
      </div>
      ${response
        ? html`<div role="status">
            <p>
              ${response.status
                ? html`
                    <span class="badge ${toneOf(response.status)}">${response.status}</span> <span class="faint num">
                      ${text.took(response.took)}
                    </span>
                  `
                : null}
            </p>
            <${Code}>${response.text}<//>
          </div>`
        : null}
    </form>
  </details>`;
}

/** The whole operation. */
export function Operation({ one, document, base, open, onToggle }) {
  const body = one.body ? sample(document, one.body) : undefined;
  const endless = one.responses.some((response) => ENDLESS.includes(response.type));
  return html`<details
    class="operation card"
    id=${one.id}
    open=${open}
    onToggle=${(event) => onToggle(event.target.open)}
  >
    <summary>
      <span class="method ${one.method}">${one.method.toUpperCase()}</span>
      <code class="path">${one.path}</code>
      <span class="soft summary"><${InlineCode} text=${one.summary} /></span>
    </summary>
    ${open
      ? html`<div class="body">
          ${one.description ? html`<p><${InlineCode} text=${one.description} /></p>` : null}
          ${one.parameters.length > 0 ? html`<${Parameters} list=${one.parameters} document=${document} />` : null}
          ${one.body
            ? html`
                <h3>${one.bodyRequired ? text.body : text.bodyOptional}</h3>
                <${Schema} schema=${one.body} document=${document} />
                <h3>${text.example}</h3>
                <${Code}>${JSON.stringify(body, null, 2)}<//>
              `
            : null}
          <h3>${text.line}</h3>
          <${Code}>${curl(base, one, { body })}<//>
          ${one.method === 'get' && !endless ? html`<${Try} one=${one} />` : null}
          <${Responses} list=${one.responses} document=${document} />
        </div>`
      : null}
  </details>`;
}
