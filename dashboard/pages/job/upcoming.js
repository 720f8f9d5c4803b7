// Upcoming tab: the next times of a job in the zones of viewer and job, with clock changes marked.

import { html } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { refine } from '../../lib/route.js';
import { Choice } from '../../lib/choice.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { Ago, clock, zone as viewerZone } from '../../lib/time.js';
import { wall } from '../../lib/zone.js';
import { ActionButton, Badge, Card, Empty, Loaded, Table } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.upcoming;
const COUNTS = ['10', '25', '100'];

const Remark = ({ time }) =>
  html`<span class="flags">
    ${time.note ? html`<${Badge} tone="warn" title=${time.note}>⚑ ${time.note}<//>` : null}
    ${time.skipped ? html`<${Badge}>${text.skipped}<//>` : null}
  </span>`;

const columns = (job) =>
  [
    {
      id: 'at',
      label: `${text.columns.at} (${viewerZone})`,
      cell: (time) => html`<span class=${time.skipped ? 'num struck' : 'num'}>${clock(time.at)}</span>`,
    },
    { id: 'in', label: text.in, cell: (time) => html`<${Ago} at=${time.at} zone=${time.zone} />` },
    job.zone && job.zone !== viewerZone
      ? {
          id: 'local',
          label: `${text.columns.local} (${job.zone})`,
          cell: (time) => html`<span class="num">${wall(time.local)} <span class="faint">${time.offset}</span></span>`,
        }
      : null,
    { id: 'note', label: text.columns.note, cell: (time) => html`<${Remark} time=${time} />` },
    {
      id: 'skip',
      label: text.columns.skip,
      class: 'right',
      cell: (time) =>
        time.skipped
          ? null
          : html`<${ActionButton}
              kind="small"
              cli=${cli.skip(job.name, time.at)}
              onClick=${() => refine({ do: 'skip', nominal: time.at }, {})}
            >
              ${text.skip}
            <//>`,
    },
  ].filter(Boolean);

export function Upcoming({ job, query }) {
  const count = COUNTS.includes(query.count) ? query.count : '10';
  const loaded = useLoad(
    (signal) => get(`/jobs/${pathSegment(job.name)}/upcoming`, { count }, { signal }),
    `${job.name} ${count} ${job.phase} ${job.schedule} ${job.skips.length} ${job.next_at}`,
  );
  const actions = html`<${Choice}
    label=${text.count}
    choices=${COUNTS.map((id) => ({ id, label: id }))}
    current=${count}
    onChoose=${(id) => refine({ count: id })}
  />`;
  return html`<${Card} title=${texts.tabs.upcoming} note=${job.in_words} actions=${actions} flush>
    <${Loaded} of=${loaded} skeleton=${10}>
      ${(data) =>
        html`<${Table}
          columns=${columns(job)}
          rows=${data.items}
          id=${(time) => time.at}
          empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
        />`}
    <//>
  <//>`;
}
