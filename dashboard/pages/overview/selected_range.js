// Selected range: the executions that ended in a range selected on a chart.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { refine } from '../../lib/route.js';
import { executionsWith, jobPage, messagePage, messagesWith } from '../../lib/links.js';
import { clock, hour, duration } from '../../lib/time.js';
import { Card, Empty, Loaded, StateBadge, Table } from '../../lib/ui.js';
import { overview as text } from '../../texts.js';

const ROWS = 20;
const {
  brushed,
  brushed: { columns },
} = text;
const COLUMNS = [
  { id: 'what', label: columns.what, cell: (run) => html`<span class="clip">${run.job ?? run.topic}</span>` },
  { id: 'ending', label: columns.ending, cell: (run) => html`<${StateBadge} word=${run.ending} />` },
  { id: 'ended', label: columns.ended, cell: (run) => html`<span class="num">${hour(run.ended_at)}</span>` },
  { id: 'waited', label: columns.waited, class: 'right num', cell: (run) => duration(run.waited_ms) },
  { id: 'took', label: columns.took, class: 'right num', cell: (run) => duration(run.took_ms) },
  {
    id: 'note',
    label: columns.note,
    cell: (run) => html`<span class="clip soft">${run.note ?? run.reason ?? ''}</span>`,
  },
];

export function SelectedRange({ from, to }) {
  const loaded = useLoad(
    (signal) => get('/executions', { since: from, until: to, limit: ROWS }, { signal }),
    `${from} ${to}`,
  );
  const actions = html`
    <a href=${executionsWith({ since: from, until: to })}>${brushed.executions}</a>
    <a href=${messagesWith({ since: from, until: to })}>${brushed.messages}</a>
    <button class="small" onClick=${() => refine({ from: null, to: null })}>${brushed.clear}</button>
  `;
  return html`<${Card}
    title=${brushed.title}
    note=${`${clock(from)} – ${hour(to)}`}
    actions=${actions}
    class="scroll"
    flush
  >
    <${Loaded} of=${loaded}>
      ${(data) =>
        html`<${Table}
          columns=${COLUMNS}
          rows=${data.items.slice(0, ROWS)}
          id=${(run) => run.id}
          href=${(run) => (run.message ? messagePage(run.message) : jobPage(run.job))}
          empty=${html`<${Empty} title=${brushed.none} />`}
        />`}
    <//>
  <//>`;
}
