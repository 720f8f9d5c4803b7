// Schema: the fields of a type; nested types open below their field.

import { html } from '../lib/html.js';
import { alternatives, bounds, fields, nestedType, nameOf, resolve, typeOf } from './document.js';
import { InlineCode } from './inline_code.js';
import { reference as text } from '../texts/reference.js';

const DEPTH = 6;

function About({ schema, document }) {
  const found = resolve(document, schema);
  const limits = bounds(found);
  const words = schema.description ?? found.description;
  return html`
    ${words ? html`<p><${InlineCode} text=${words} /></p>` : null}
    ${found.enum
      ? html`<p class="faint">${text.values} ${found.enum.map((value) => html`<code>${String(value)}</code> `)}</p>`
      : null}
    ${limits ? html`<p class="faint">${limits}</p>` : null}
  `;
}

function Field({ field, document, depth }) {
  const below = depth < DEPTH ? nestedType(document, field.schema) : null;
  return html`<li>
    <div class="field-line">
      <code class="field-name">${field.name}</code>
      <span class="faint mono">${typeOf(field.schema)}</span>
      ${field.required ? html`<span class="badge mute">${text.required}</span>` : null}
    </div>
    <${About} schema=${field.schema} document=${document} />
    ${below
      ? html`<details>
          <summary>${text.deeper} ${nameOf(below) ? html`<code>${nameOf(below)}</code>` : null}</summary>
          <${Schema} schema=${below} document=${document} depth=${depth + 1} />
        </details>`
      : null}
  </li>`;
}

/** The fields of a type. */
export function Schema({ schema, document, depth = 0 }) {
  const found = resolve(document, schema);
  const list = fields(document, schema);
  const options = alternatives(found).filter((one) => nestedType(document, one));
  if (list.length > 0)
    return html`<ul class="fields">
      ${list.map((field) => html`<${Field} key=${field.name} field=${field} document=${document} depth=${depth} />`)}
    </ul>`;
  const below = nestedType(document, schema);
  if (options.length > 1 && depth < DEPTH) {
    return html`
      <p class="faint">${text.oneOf}</p>
      ${options.map((one) => html`<${Schema} schema=${one} document=${document} depth=${depth + 1} />`)}
    `;
  }
  if (below && below !== schema && depth < DEPTH)
    return html`
      <p class="mono faint">${typeOf(schema)}</p>
      <${Schema} schema=${below} document=${document} depth=${depth + 1} />
    `;
  return html`<p class="mono faint">${typeOf(schema)}</p><${About} schema=${found} document=${document} />`;
}
