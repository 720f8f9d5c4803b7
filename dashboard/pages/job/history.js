// Job history: the duration of each run, and every execution with its note and log.

import { html, useState } from '../../lib/html.js';
import { pathSegment } from '../../lib/api.js';
import { refine } from '../../lib/route.js';
import { messagePage } from '../../lib/links.js';
import { MoreRows, NewRows, useLiveList } from '../../lib/live_list.js';
import { clock, duration, When } from '../../lib/time.js';
import { Card, Empty, Loaded, StateBadge, Table, tone } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.history;
const ON = ['attempt.succeeded', 'attempt.failed', 'attempt.timed_out', 'attempt.lost', 'job.skipped'];
const ENDINGS = [
  'succeeded',
  'failed',
  'timed_out',
  'panicked',
  'no_handler',
  'snoozed',
  'discarded',
  'cancelled',
  'released',
  'lost',
  'skipped',
];
const [WIDTH, HEIGHT, BARS] = [900, 96, 120];

/** Bar chart of durations, oldest first, coloured by ending. */
export function Durations({ runs }) {
  const shown = runs
    .filter((run) => run.ending !== 'skipped')
    .slice(0, BARS)
    .reverse();
  if (shown.length === 0) return null;
  const top = Math.max(1, ...shown.map((run) => run.took_ms));
  const step = WIDTH / Math.max(60, shown.length);
  const bar = (run, at) => {
    const height = Math.max(2, (run.took_ms / top) * (HEIGHT - 6));
    const open = () => {
      if (run.message) location.hash = messagePage(run.message);
    };
    return html`<rect
      key=${run.id}
      class="fill ${tone(run.ending)} ${run.message ? 'to-message' : ''}"
      onClick=${open}
      x=${at * step}
      y=${HEIGHT - height}
      width=${Math.max(1, step - 2)}
      height=${height}
      rx="1.5"
    >
      <title>${`${clock(run.started_at)} · ${duration(run.took_ms)} · ${run.ending}`}</title>
    </rect>`;
  };
  return html`<div class="durations">
    <span class="faint top-label num">${duration(top)}</span>
    <svg
      viewBox="0 0 ${WIDTH} ${HEIGHT}"
      preserveAspectRatio="none"
      role="img"
      aria-label=${text.label(shown.length, duration(top))}
    >
      ${shown.map(bar)}
    </svg>
  </div>`;
}

function Note({ run }) {
  const [open, setOpen] = useState(false);
  const words = run.note ?? run.reason?.replaceAll('_', ' ') ?? '';
  return html`<div class="note">
    <span class="clip long soft" title=${words}>${words}</span>
    ${run.log
      ? html`
          <button class="small quiet" aria-expanded=${open} onClick=${() => setOpen(!open)}>${text.log}</button>
          ${open ? html`<pre>${run.log}</pre>` : null}
        `
      : null}
  </div>`;
}

const COLUMNS = [
  {
    id: 'nominal',
    label: text.columns.nominal,
    cell: (run) =>
      run.nominal ? html`<${When} at=${run.nominal} />` : html`<span class="faint">${text.manual}</span>`,
  },
  { id: 'ending', label: text.columns.ending, cell: (run) => html`<${StateBadge} word=${run.ending} />` },
  {
    id: 'attempt',
    label: text.columns.attempt,
    class: 'right num',
    cell: (run) => (run.attempt ? `${run.attempt}/${run.attempts_max ?? '∞'}` : ''),
  },
  { id: 'waited', label: text.columns.waited, class: 'right num', cell: (run) => duration(run.waited_ms) },
  { id: 'took', label: text.columns.took, class: 'right num', cell: (run) => duration(run.took_ms) },
  { id: 'note', label: text.columns.note, cell: (run) => html`<${Note} run=${run} />` },
];

const Endings = ({ current }) => html`<select
  aria-label=${text.ending}
  value=${current ?? ''}
  onChange=${(event) => refine({ ending: event.target.value, after: null })}
>
  <option value="">${text.all}</option>
  ${ENDINGS.map((ending) => html`<option key=${ending} value=${ending}>${ending.replaceAll('_', ' ')}</option>`)}
</select>`;

export function History({ job, query }) {
  const { ending, after } = query;
  const list = useLiveList(
    `/jobs/${pathSegment(job.name)}/executions`,
    { ending, after },
    { id: (run) => run.id, on: ON },
  );
  return html`<${Card} title=${text.durations} actions=${html`<${Endings} current=${ending} />`} flush>
    <${NewRows} of=${list} />
    <${Loaded} of=${list} skeleton=${10}>
      ${(runs) => html`
        <${Durations} runs=${runs} />
        <${Table}
          columns=${COLUMNS}
          rows=${runs}
          id=${(run) => run.id}
          href=${(run) => (run.message ? messagePage(run.message) : null)}
          empty=${html`<${Empty} title=${ending ? text.noMatch : text.none} />`}
        />
      `}
    <//>
    <${MoreRows} of=${list} after=${after} />
  <//>`;
}
