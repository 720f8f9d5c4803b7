// JSON viewer: a tree that opens and closes, with exact numbers and marks for redacted values.

import { html, useState } from './html.js';
import { Copy } from './copy.js';
import { ExactNumber, stringify } from './exact_json.js';
import { Badge } from './ui.js';
import { message } from '../texts.js';

const text = message.body;
const HIDDEN = '[redacted]';
const SHOWN = 100;

function Value({ value }) {
  if (value === HIDDEN) return html`<${Badge} tone="warn">${text.hiddenMark}<//>`;
  if (value === null) return html`<span class="j-null">null</span>`;
  if (value instanceof ExactNumber || typeof value === 'number')
    return html`<span class="j-number">${String(value)}</span>`;
  if (typeof value === 'string') return html`<span class="j-string">${JSON.stringify(value)}</span>`;
  return html`<span class="j-null">${String(value)}</span>`;
}

const Key = ({ name }) =>
  name === undefined ? null : html`<span class="j-key">${name}</span><span class="faint">: </span>`;

function Branch({ name, value, depth, open }) {
  const [most, setMost] = useState(SHOWN);
  const isList = Array.isArray(value);
  const entries = Object.entries(value);
  const about = isList ? text.items(entries.length) : text.keys(entries.length);
  if (entries.length === 0)
    return html`<div class="j-leaf"><${Key} name=${name} /><span class="faint">${isList ? '[ ]' : '{ }'}</span></div>`;
  return html`<details class="j-branch" open=${open(depth)}>
    <summary>
      <${Key} name=${name} />
      <span class="faint">${isList ? '[' : '{'} ${about} ${isList ? ']' : '}'}</span>
    </summary>
    ${entries
      .slice(0, most)
      .map(([key, item]) => html`<${Node} key=${key} name=${key} value=${item} depth=${depth + 1} open=${open} />`)}
    ${entries.length > most
      ? html`<button type="button" class="quiet small" onClick=${() => setMost(most + SHOWN * 5)}>
          ${text.more(entries.length - most)}
        </button>`
      : null}
  </details>`;
}

function Node({ name, value, depth, open }) {
  if (value !== null && typeof value === 'object' && !(value instanceof ExactNumber))
    return html`<${Branch} name=${name} value=${value} depth=${depth} open=${open} />`;
  return html`<div class="j-leaf"><${Key} name=${name} /><${Value} value=${value} /></div>`;
}

/** A JSON value as a tree or as text, with a copy button. */
export function Json({ value }) {
  const [raw, setRaw] = useState(false);
  const [opened, setOpened] = useState({ depth: 2, times: 0 });
  const set = (depth) => setOpened({ depth, times: opened.times + 1 });
  return html`<div class="json">
    <div class="tools">
      <button type="button" class="quiet small" onClick=${() => setRaw(!raw)}>${raw ? text.tree : text.raw}</button>
      ${raw
        ? null
        : html`
            <button type="button" class="quiet small" onClick=${() => set(Infinity)}>${text.open}</button>
            <button type="button" class="quiet small" onClick=${() => set(1)}>${text.close}</button>
          `}
      <${Copy} text=${() => stringify(value)} />
    </div>
    ${raw
      ? html`<pre tabindex="0">${stringify(value)}</pre>`
      : html`<div class="tree" key=${opened.times}>
          <${Node} value=${value} depth=${0} open=${(depth) => depth < opened.depth} />
        </div>`}
  </div>`;
}
