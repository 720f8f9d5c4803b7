// Planned one-time jobs that are pending or running. The page of a message has the actions of one of them.

import { html } from '../../lib/html.js';
import { Id } from '../../lib/copy.js';
import { messagePage } from '../../lib/links.js';
import { ON, Phase } from '../../lib/message.js';
import { refine, to } from '../../lib/route.js';
import { MoreRows, NewRows, useLiveList } from '../../lib/live_list.js';
import { Ago } from '../../lib/time.js';
import { Badge, Card, Empty, Loaded, Table, Tabs } from '../../lib/ui.js';
import { Search } from './search.js';
import { jobs } from '../../texts.js';

const text = jobs.planned;
/** Value of `view` in the address; the list of jobs has none. */
export const VIEW = 'planned';

/** Tabs of the jobs page. */
export function JobTabs({ current }) {
  return html`<${Tabs}
    current=${current}
    tabs=${[
      { id: 'jobs', label: jobs.tabs.jobs, href: to(['jobs']) },
      { id: VIEW, label: jobs.tabs.planned, href: plannedPage() },
    ]}
  />`;
}

/** Link to the list, optionally filtered by name. */
export const plannedPage = (name) => to(['jobs'], { view: VIEW, search: name });

/** Parameters of the API request. */
export const listParameters = ({ search, after }) => ({ planned: true, state: 'pending,running', search, after });

const faint = html`<span class="faint dash">–</span>`;

/** Phase of a planned job, and who paused it. */
const PlannedState = ({ of }) =>
  of.paused
    ? html`<${Badge} tone="warn" title=${text.pausedBy(of.paused.by, of.paused.reason)}>${text.paused}<//>`
    : html`<${Phase} message=${of} />`;

const columns = [
  {
    id: 'name',
    label: text.columns.name,
    cell: (row) => html`<span class="clip" title=${row.job}>${row.job}</span><${Id} id=${row.id} />`,
  },
  {
    id: 'key',
    label: text.columns.key,
    cell: (row) => (row.key ? html`<span class="clip narrow" title=${row.key}>${row.key}</span>` : faint),
  },
  { id: 'state', label: text.columns.state, cell: (row) => html`<${PlannedState} of=${row} />` },
  { id: 'due', label: text.columns.due, class: 'nowrap', cell: (row) => html`<${Ago} at=${row.due_at} />` },
  {
    id: 'made',
    label: text.columns.made,
    class: 'nowrap wide-only',
    cell: (row) => html`<${Ago} at=${row.created_at} />`,
  },
];

const None = ({ search }) =>
  search
    ? html`<${Empty} title=${text.noMatch.title}>
        <p>${text.noMatch.text}</p>
        <button onClick=${() => refine({ search: null, after: null })}>${text.noMatch.clear}</button>
      <//>`
    : html`<${Empty} title=${text.none.title} icon="◷"><p>${text.none.text}</p><//>`;

export function PlannedJobs({ query }) {
  const { search, after } = query;
  const list = useLiveList('/messages', listParameters(query), { id: (row) => row.id, on: ON });
  return html`
    <div class="filters"><${Search} value=${search} label=${text.search} /></div>
    <${Card} flush>
      <${NewRows} of=${list} />
      <${Loaded} of=${list} skeleton=${10}>
        ${(rows) => html`<${Table}
          label=${jobs.tabs.planned}
          columns=${columns}
          rows=${rows}
          id=${(row) => row.id}
          href=${(row) => messagePage(row.id)}
          stale=${list.stale}
          empty=${html`<${None} search=${search} />`}
        />`}
      <//>
      <${MoreRows} of=${list} after=${after} />
    <//>
  `;
}
