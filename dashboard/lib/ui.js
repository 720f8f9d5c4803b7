// Components that every page uses: heads, cards, badges, buttons, dialogs, fields, tables.

import { html, useEffect, useRef, useState, useId, createContext, createPortal, useContext } from './html.js';
import { hasRole, useSession } from './session.js';
import { shell } from '../texts.js';

/** Head of a page: title with badges, a one-sentence description, and actions on the right. */
export function Head({ title, about, children, crumbs, badges }) {
  useEffect(() => {
    document.title = `${typeof title === 'string' ? title : ''} · ${shell.name}`;
  }, [title]);
  return html`<header class="head">
    <div>
      ${crumbs ? html`<nav class="crumbs" aria-label="Breadcrumb">${crumbs}</nav>` : null}
      ${badges ? html`<div class="inline"><h1>${title}</h1>${badges}</div>` : html`<h1>${title}</h1>`}
      ${about ? html`<p class="about">${about}</p>` : null}
    </div>
    <div class="actions">${children}</div>
  </header>`;
}

/** A box with a heading. */
export function Card({ title, note, actions, children, class: extra = '', flush = false }) {
  return html`<section class="card ${extra}">
    ${title || actions
      ? html`<header>
          <h2>${title}</h2>
          ${note ? html`<span class="faint">${note}</span>` : null}
          <div class="actions">${actions}</div>
        </header>`
      : null}
    <div class=${flush ? 'flush' : 'body'}>${children}</div>
  </section>`;
}

/** A label in a colour: good, warn, bad, busy, idle, mute. */
export function Badge({ tone = 'mute', children, title }) {
  return html`<span class="badge ${tone}" title=${title}>${children}</span>`;
}

const TONES = {
  active: 'good',
  succeeded: 'good',
  done: 'good',
  healthy: 'good',
  ready: 'idle',
  running: 'busy',
  scheduled: 'idle',
  planned: 'idle',
  waiting: 'idle',
  pending: 'idle',
  retrying: 'warn',
  paused: 'warn',
  degraded: 'warn',
  skipped: 'mute',
  snoozed: 'idle',
  stale: 'bad',
  failed: 'bad',
  dead: 'bad',
  timed_out: 'bad',
  panicked: 'bad',
  no_handler: 'bad',
  poison: 'bad',
  lost: 'bad',
  discarded: 'bad',
  broken: 'bad',
  missed: 'bad',
  unhealthy: 'bad',
  cancelled: 'mute',
  released: 'mute',
  retired: 'mute',
  removed: 'mute',
  finished: 'mute',
  'never run': 'mute',
  ran: 'good',
};

/** Tone of a state, phase or ending. */
export const tone = (word) => TONES[word] ?? 'mute';

/** Badge of a state, phase or ending. */
export const StateBadge = ({ word, title }) =>
  html`<${Badge} tone=${tone(word)} title=${title}>${String(word).replaceAll('_', ' ')}<//>`;

/** Placeholder for an empty list, with what to do next. */
export function Empty({ title, children, icon = '○' }) {
  return html`<div class="empty">
    <div class="mark" aria-hidden="true">${icon}</div>
    <p class="title">${title}</p>
    ${children ? html`<div>${children}</div>` : null}
  </div>`;
}

/** Shows a skeleton while data loads, an error when it failed; `children` receives the data. */
export function Loaded({ of, children, skeleton = 6 }) {
  if (of.data === null && of.error) {
    return html`<div class="empty">
      <div class="mark bad" aria-hidden="true">!</div>
      <p class="title">${shell.failed}</p>
      <p>${of.error.message}</p>
      <button onClick=${of.reload}>${shell.again}</button>
    </div>`;
  }
  if (of.data === null) {
    return html`<div class="skeleton" role="status" aria-label=${shell.loading}>
      ${Array.from({ length: skeleton }, () => html`<div></div>`)}
    </div>`;
  }
  return html`
    ${of.error ? html`<p class="notice warn" role="alert">${of.error.message}</p>` : null}
    ${children(of.data)}
  `;
}

/** A button that requires a role and shows its CLI command in the tooltip. */
export function ActionButton({ role = 'operator', cli, onClick, children, kind = '', disabled = false, title, label }) {
  const session = useSession();
  const allowed = hasRole(session, role);
  const [busy, setBusy] = useState(false);
  const toast = useToast();
  const run = async (event) => {
    event.stopPropagation();
    setBusy(true);
    try {
      await onClick(event);
    } catch (error) {
      toast({ tone: 'bad', text: error.message });
    }
    setBusy(false);
  };
  const hint = !allowed ? shell.denied(role) : [title, cli ? `$ ${cli}` : null].filter(Boolean).join('\n');
  return html`<button
    class=${kind}
    onClick=${run}
    disabled=${disabled || busy || !allowed}
    aria-busy=${busy}
    title=${hint}
    aria-label=${label}
  >
    ${children}
  </button>`;
}

/** A CLI command with a copy button. */
export function CliCommand({ command }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    } catch {
      /* not allowed here */
    }
  };
  return html`<div class="cli">
    <code tabindex="0">${command}</code>
    <button type="button" class="quiet" onClick=${copy} aria-label=${shell.copy}>
      ${copied ? shell.copied : shell.copy}
    </button>
  </div>`;
}

/** A modal dialog at the end of the document, so that it inherits no styles. Escape and a click outside close it. */
export function Dialog({ title, onClose, children, footer, wide = false }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return createPortal(
    html`<dialog
      ref=${element}
      class=${wide ? 'wide' : ''}
      aria-labelledby=${id}
      onCancel=${(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown=${(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <form method="dialog" onSubmit=${(event) => event.preventDefault()}>
        <header>
          <h2 id=${id}>${title}</h2>
          <button type="button" class="quiet" onClick=${onClose} aria-label=${shell.close}>✕</button>
        </header>
        <div class="body">${children}</div>
        ${footer ? html`<footer>${footer}</footer>` : null}
      </form>
    </dialog>`,
    document.body,
  );
}

/** Asks for confirmation of an action that cannot be undone; shows the count and the CLI command. */
export function Confirm({ title, text, button, cli, onDo, onClose, tone: kind = 'danger', children }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const run = async () => {
    setBusy(true);
    try {
      await onDo();
      onClose();
    } catch (problem) {
      setError(problem.message);
      setBusy(false);
    }
  };
  return html`<${Dialog}
    title=${title}
    onClose=${onClose}
    footer=${html`
      <button type="button" onClick=${onClose}>${shell.cancel}</button>
      <button type="button" class=${kind} onClick=${run} disabled=${busy} aria-busy=${busy}>${button}</button>
    `}
  >
    ${text ? html`<p>${text}</p>` : null}
    ${children}
    ${error ? html`<p class="notice bad" role="alert">${error}</p>` : null}
    ${cli ? html`<${CliCommand} command=${cli} />` : null}
  <//>`;
}

/** A labelled input with its hint or error. */
export function Field({ label, hint, error, children }) {
  return html`<label class="field">
    <span>${label}</span>
    ${children}
    ${error ? html`<em class="error" role="alert">${error}</em>` : hint ? html`<em>${hint}</em>` : null}
  </label>`;
}

/** Tabs that are links, so that each has its own address. */
export function Tabs({ tabs, current }) {
  return html`<nav class="tabs">
    ${tabs.map(
      (tab) =>
        html`<a href=${tab.href} aria-current=${tab.id === current ? 'page' : null}>
          ${tab.label}
          ${tab.count === undefined || tab.count === null ? null : html` <span class="count">${tab.count}</span>`}
        </a>`,
    )}
  </nav>`;
}

/** Progress bar with a label. */
export function Progress({ value, max = 100, label }) {
  return html`<div class="progress">
    <progress value=${value} max=${max} aria-label=${label}></progress>
    <span class="num">${label}</span>
  </div>`;
}

/** A small line chart. */
export function Sparkline({ values, width = 96, height = 22, label }) {
  const top = Math.max(1, ...values);
  const step = width / Math.max(1, values.length - 1);
  const points = values
    .map((value, index) => `${(index * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`)
    .join(' ');
  return html`<svg
    class="spark"
    viewBox="0 0 ${width} ${height}"
    width=${width}
    height=${height}
    role="img"
    aria-label=${label}
  >
    <polyline points=${points} fill="none" />
  </svg>`;
}

/** Latest runs as coloured cells, oldest first. */
export function RunStrip({ runs, max = 30, label }) {
  const shown = runs.slice(-max);
  return html`<span class="strip" role="img" aria-label=${label}>
    ${Array.from({ length: Math.max(0, max - shown.length) }, () => html`<i class="cell none"></i>`)}
    ${shown.map((run) => html`<i class="cell ${tone(run.ending)}" title=${run.title}></i>`)}
  </span>`;
}

/** A description list of names and values. */
export function Facts({ rows }) {
  return html`<dl class="facts">
    ${rows
      .filter(Boolean)
      .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? html`<span class="faint">–</span>`}</dd></div>`)}
  </dl>`;
}

const Toasts = createContext(() => {});
export const useToast = () => useContext(Toasts);

/** Container of short messages (toasts). */
export function ToastArea({ children }) {
  const [toasts, setToasts] = useState([]);
  const add = (toast) => {
    const id = Math.random();
    setToasts((before) => [...before.slice(-3), { id, ...toast }]);
    setTimeout(() => setToasts((before) => before.filter((other) => other.id !== id)), toast.undo ? 5_000 : 4_000);
  };
  return html`<${Toasts.Provider} value=${add}>
    ${children}
    <div class="toasts" role="status" aria-live="polite">
      ${toasts.map(
        (toast) => html`<div class="toast ${toast.tone ?? ''}" key=${toast.id}>
          <span>${toast.text}</span>
          ${toast.undo
            ? html`<button
                class="quiet"
                onClick=${() => {
                  toast.undo();
                  setToasts((before) => before.filter((other) => other.id !== toast.id));
                }}
              >
                Undo
              </button>`
            : null}
        </div>`,
      )}
    </div>
  <//>`;
}

/** A table whose rows are links. `columns`: {id, label, cell(row), class?, sort?}. `stale`: ids of faint rows. */
export function Table({ columns, rows, id, href, selected, onSelect, sort, onSort, empty, stale, label }) {
  if (rows.length === 0) return empty ?? html`<${Empty} title=${shell.empty} />`;
  const all = selected && rows.every((row) => selected.has(id(row)));
  const toggle = (row) => {
    const next = new Set(selected);
    next.has(id(row)) ? next.delete(id(row)) : next.add(id(row));
    onSelect(next);
  };
  return html`<div class="table">
    <table aria-label=${label}>
      <thead>
        <tr>
          ${selected
            ? html`<th class="check">
                <input
                  type="checkbox"
                  checked=${all}
                  aria-label="Select all rows shown"
                  onChange=${() => onSelect(all ? new Set() : new Set(rows.map(id)))}
                />
              </th>`
            : null}
          ${columns.map(
            (column) =>
              html`<th
                class=${column.class ?? ''}
                aria-sort=${sort === column.sort && column.sort ? 'ascending' : null}
              >
                ${column.sort && onSort
                  ? html`<button class="quiet" onClick=${() => onSort(column.sort)}>
                      ${column.label}
                      ${sort === column.sort ? ' ↓' : ''}
                    </button>`
                  : column.label}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`<tr
            key=${id(row)}
            class=${[selected?.has(id(row)) ? 'selected' : '', stale?.has(id(row)) ? 'stale' : ''].join(' ').trim()}
          >
            ${selected
              ? html`<td class="check">
                  <input
                    type="checkbox"
                    checked=${selected.has(id(row))}
                    aria-label="Select ${id(row)}"
                    onChange=${() => toggle(row)}
                  />
                </td>`
              : null}
            ${columns.map(
              (column, index) =>
                html`<td class=${column.class ?? ''} data-label=${column.label}>
                  ${index === 0 && href
                    ? html`<a class="row" href=${href(row)}>${column.cell(row)}</a>`
                    : column.cell(row)}
                </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
