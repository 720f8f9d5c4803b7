// Executions page: every finished attempt with its ending, waiting time and duration.

import { html } from '../../lib/html.js';
import { EXECUTIONS, parameters, parse, valueOf, withTerm } from '../../lib/filter.js';
import { FilterBar } from '../../lib/filterbar.js';
import { jobPage, messagePage } from '../../lib/links.js';
import { Id } from '../../lib/copy.js';
import { attempts } from '../../lib/message.js';
import { MoreRows, NewRows, emptyReason, useLiveList } from '../../lib/live_list.js';
import { refine, to } from '../../lib/route.js';
import { Ago, duration } from '../../lib/time.js';
import { Card, Empty, Head, Loaded, StateBadge, Table } from '../../lib/ui.js';
import { StateTabs, useCounts } from './tabs.js';
import { useValues } from './list.js';
import { messages } from '../../texts.js';

const text = messages.executions;
const ON = [
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
  'attempt.ended_early',
  'job.skipped',
  'lease.lost',
  'leases.rescued',
  'missed',
];
const FAILED = 'failed,timed_out,panicked,no_handler,poison,lost';
const QUICK = [
  ['all', null],
  ['succeeded', 'succeeded'],
  ['failed', FAILED],
  ['skipped', 'skipped'],
];

const columns = [
  {
    id: 'what',
    label: text.columns.what,
    cell: (row) =>
      html`
        <span class="clip" title=${row.job ?? row.topic}>${row.job ?? row.topic}</span>
        ${row.message ? html`<${Id} id=${row.message} />` : null}
      `,
  },
  {
    id: 'ending',
    label: text.columns.ending,
    cell: (row) =>
      html`<span class="flags">
        <${StateBadge} word=${row.ending} />
        ${row.reason ? html`<span class="faint">${row.reason.replaceAll('_', ' ')}</span>` : null}
      </span>`,
  },
  { id: 'started', label: text.columns.started, class: 'nowrap', cell: (row) => html`<${Ago} at=${row.started_at} />` },
  { id: 'waited', label: text.columns.waited, class: 'right num', cell: (row) => duration(row.waited_ms) },
  { id: 'took', label: text.columns.took, class: 'right num', cell: (row) => duration(row.took_ms) },
  { id: 'attempt', label: text.columns.attempt, class: 'right num', cell: (row) => attempts(row) },
  {
    id: 'note',
    label: text.columns.note,
    cell: (row) =>
      row.note
        ? html`<span class="clip long failure" title=${row.note}>${row.note}</span>`
        : html`<span class="faint dash">–</span>`,
  },
];

const EndingFilter = ({ q }) => {
  const ending = valueOf(q, 'ending');
  return html`<span class="choice" role="group" aria-label=${text.endings}>
    ${QUICK.map(
      ([id, value]) =>
        html`<button
          key=${id}
          aria-pressed=${ending === value}
          onClick=${() => refine({ q: withTerm(q, 'ending', value), after: null }, {})}
        >
          ${text[id]}
        </button>`,
    )}
  </span>`;
};

const NONE = {
  soFar: () => html`<${Empty} title=${messages.soFar}><p>${messages.soFarText(text.older)}</p><//>`,
  noMatch: () => html`<${Empty} title=${text.noMatch} />`,
  none: () => html`<${Empty} title=${text.none} />`,
};
const workLink = (row) =>
  row.message ? messagePage(row.message) : row.job ? jobPage(row.job) : to(['messages', 'executions']);

export function Executions({ route }) {
  const { q = '', after } = route.query;
  const list = useLiveList('/executions', () => ({ ...parameters(q, { grammar: EXECUTIONS }), after }), {
    id: (row) => row.id,
    on: ON,
    name: [q, after],
  });
  const { counts } = useCounts('');
  const { load, values } = useValues([]);
  return html`
    <${Head} title=${messages.tabs.executions} about=${text.about} />
    <${StateTabs} q="" counts=${counts} current="executions" />
    <div class="filters">
      <${FilterBar}
        value=${q}
        grammar=${EXECUTIONS}
        placeholder=${text.placeholder}
        values=${values}
        onFocus=${load}
        onApply=${(next) => refine({ q: next, after: null }, {})}
      />
      <${EndingFilter} q=${q} />
    </div>
    ${parse(q, EXECUTIONS).problems.length > 0
      ? null
      : html`<${Card} flush>
          <${NewRows} of=${list} />
          <${Loaded} of=${list} skeleton=${10}>
            ${(rows) =>
              html`<${Table}
                label=${messages.tabs.executions}
                columns=${columns}
                rows=${rows}
                id=${(row) => row.id}
                href=${workLink}
                empty=${NONE[emptyReason(list.next, q)]()}
              />`}
          <//>
          <${MoreRows} of=${list} after=${after} />
        <//>`}
  `;
}
