// Audit page: who changed what, when and why, with the values before and after.

import { html, useEffect, useRef, useState } from '../lib/html.js';
import { diffValues } from '../lib/difference.js';
import { jobPage, messagePage, queuePage } from '../lib/links.js';
import { MoreRows, NewRows, useLiveList } from '../lib/live_list.js';
import { refine } from '../lib/route.js';
import { Ago, When } from '../lib/time.js';
import { Card, Dialog, Empty, Facts, Head, Loaded, Table } from '../lib/ui.js';
import { audit as text } from '../texts.js';

const SHOWN = 2;
const REST = 300;

const formatValue = (value) =>
  value === undefined || value === null
    ? text.nothing
    : typeof value === 'object'
      ? JSON.stringify(value)
      : String(value);

/** A changed value. */
const Change = ({ of }) =>
  html`<span class="changed">
    ${of.path ? html`<span class="faint">${of.path}</span> ` : null}
    ${of.before === undefined || of.before === null ? null : html`<del>${formatValue(of.before)}</del>${' → '}`}
    <ins>${formatValue(of.after)}</ins>
  </span>`;

function Changes({ entry, onMore }) {
  const changes = diffValues(entry.before, entry.after);
  if (changes.length === 0) return html`<span class="faint dash">–</span>`;
  return html`<span class="changes">
    ${changes.slice(0, SHOWN).map((change) => html`<${Change} key=${change.path} of=${change} />`)}
    ${changes.length > SHOWN
      ? html`<button class="quiet small" onClick=${onMore}>${text.more(changes.length - SHOWN)}</button>`
      : null}
  </span>`;
}

/** Link to the page of the target. */
function targetLink({ what, target }) {
  const [kind] = what.split('.');
  return { job: jobPage, message: messagePage, queue: queuePage }[kind]?.(target) ?? null;
}

const Target = ({ entry }) =>
  targetLink(entry)
    ? html`<a class="clip" title=${entry.target} href=${targetLink(entry)}>${entry.target}</a>`
    : html`<span class="clip" title=${entry.target}>${entry.target}</span>`;

const columns = (onOpen) => [
  {
    id: 'at',
    label: text.columns.at,
    class: 'nowrap',
    cell: (entry) => html`<span class="two-lines"><${Ago} at=${entry.at} /></span>`,
  },
  { id: 'who', label: text.columns.who, class: 'nowrap', cell: (entry) => html`<b>${entry.who}</b>` },
  {
    id: 'what',
    label: text.columns.what,
    cell: (entry) => html`<button class="quiet mono" onClick=${() => onOpen(entry)}>${entry.what}</button>`,
  },
  { id: 'target', label: text.columns.target, cell: (entry) => html`<${Target} entry=${entry} />` },
  {
    id: 'change',
    label: text.columns.change,
    cell: (entry) => html`<${Changes} entry=${entry} onMore=${() => onOpen(entry)} />`,
  },
  {
    id: 'reason',
    label: text.columns.reason,
    cell: (entry) =>
      entry.reason
        ? html`<span class="clip" title=${entry.reason}>${entry.reason}</span>`
        : html`<span class="faint dash">–</span>`,
  },
  {
    id: 'from',
    label: text.columns.from,
    class: 'wide-only',
    cell: (entry) => html`<span class="mono faint">${entry.from ?? '–'}</span>`,
  },
];

function Entry({ entry, onClose }) {
  const changes = diffValues(entry.before, entry.after);
  return html`<${Dialog} wide title=${text.dialog(entry.what, entry.target)} onClose=${onClose}>
    <${Facts}
      rows=${[
        [text.columns.at, html`<${When} at=${entry.at} />`],
        [text.columns.who, entry.who],
        [text.identity, entry.identity],
        [text.columns.from, entry.from],
        [text.columns.reason, entry.reason],
      ]}
    />
    <h3 class="above">${text.columns.change}</h3>
    ${changes.length === 0
      ? html`<p class="faint">${text.noChange}</p>`
      : html`<div class="table">
          <table>
            <thead><tr><th>${text.path}</th><th>${text.before}</th><th>${text.after}</th></tr></thead>
            <tbody>
              ${changes.map(
                (change) => html`<tr key=${change.path}>
                  <td class="mono" data-label=${text.path}>${change.path || '–'}</td>
                  <td class="mono wrap" data-label=${text.before}>
                    ${change.before === undefined ? '–' : html`<del>${formatValue(change.before)}</del>`}
                  </td>
                  <td class="mono wrap" data-label=${text.after}>
                    ${change.after === undefined ? '–' : html`<ins>${formatValue(change.after)}</ins>`}
                  </td>
                </tr>`,
              )}
            </tbody>
          </table>
        </div>`}
  <//>`;
}

/** An input that updates the address after a pause in typing. */
function Filter({ name, label, value }) {
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const next = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => refine({ [name]: next, after: null }), REST);
  };
  return html`<input type="search" aria-label=${label} placeholder=${label} value=${value ?? ''} onInput=${typed} />`;
}

export function Audit({ route }) {
  const { who, what, target, after } = route.query;
  const [open, setOpen] = useState(null);
  const list = useLiveList(
    '/audit',
    { who, what, target, after },
    {
      id: (entry) => entry.id,
      on: ['job.changed', 'queue.changed', 'message.changed', 'job.declared'],
      every: 3_000,
    },
  );
  return html`
    <${Head} title=${text.title} about=${text.about} />
    <div class="filters thirds">
      <${Filter} name="who" label=${text.who} value=${who} />
      <${Filter} name="what" label=${text.what} value=${what} />
      <${Filter} name="target" label=${text.target} value=${target} />
    </div>
    <${Card} flush>
      <${NewRows} of=${list} />
      <${Loaded} of=${list}>
        ${(rows) =>
          html`<${Table}
            label=${text.title}
            columns=${columns(setOpen)}
            rows=${rows}
            id=${(entry) => entry.id}
            empty=${html`<${Empty} title=${who || what || target ? text.noMatch : text.none} />`}
          />`}
      <//>
      <${MoreRows} of=${list} after=${after} />
    <//>
    ${open ? html`<${Entry} entry=${open} onClose=${() => setOpen(null)} />` : null}
  `;
}
