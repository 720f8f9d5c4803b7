// Dead letters page: groups with the same failure, or one group.

import { html } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/live.js';
import { messagesWith } from '../lib/links.js';
import { count } from '../lib/number.js';
import { useOrder } from '../lib/live_list.js';
import { refine, to } from '../lib/route.js';
import { Ago } from '../lib/time.js';
import { Badge, Card, Empty, Head, Loaded, Table } from '../lib/ui.js';
import { Group } from './dead/group.js';
import { GroupActions, Hours } from './dead/group_actions.js';
import { dead as text } from '../texts.js';

const Failure = ({ group }) =>
  html`
    <span class="clip failure-text" title=${group.error}>${group.error ?? text.noError}</span>
    <span class="faint small-text clip">${group.job ? `${group.job} · ${group.topic}` : group.topic}</span>
  `;

const columns = (onDone) => [
  { id: 'error', label: text.columns.error, cell: (group) => html`<${Failure} group=${group} />` },
  { id: 'count', label: text.columns.count, class: 'right num', cell: (group) => html`<b>${count(group.count)}</b>` },
  {
    id: 'reason',
    label: text.columns.reason,
    class: 'roomy',
    cell: (group) =>
      group.reason
        ? html`<${Badge} tone="bad">${group.reason.replaceAll('_', ' ')}<//>`
        : html`<span class="faint dash">–</span>`,
  },
  { id: 'trend', label: text.columns.trend, cell: (group) => html`<${Hours} values=${group.per_hour} />` },
  { id: 'seen', label: text.columns.seen, class: 'nowrap', cell: (group) => html`<${Ago} at=${group.last_at} />` },
  {
    id: 'first',
    label: text.columns.first,
    class: 'nowrap wide-only',
    cell: (group) => html`<${Ago} at=${group.first_at} />`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (group) => html`<${GroupActions} group=${group} onDone=${onDone} />`,
  },
];

function Filters({ groups, query }) {
  const topics = [...new Set([...groups.map((group) => group.topic), ...(query.topic ? [query.topic] : [])])].sort();
  return html`<div class="filters">
    <input
      type="search"
      placeholder=${text.search}
      aria-label=${text.search}
      value=${query.search ?? ''}
      onInput=${(event) => refine({ search: event.target.value })}
    />
    <select
      aria-label=${text.topic}
      value=${query.topic ?? ''}
      onChange=${(event) => refine({ topic: event.target.value })}
    >
      <option value="">${text.all}</option>
      ${topics.map((topic) => html`<option key=${topic} value=${topic}>${topic}</option>`)}
    </select>
  </div>`;
}

const fits = (group, { topic, search }) =>
  (!topic || group.topic === topic) && (!search || (group.error ?? '').toLowerCase().includes(search.toLowerCase()));

function Groups({ query }) {
  const loaded = useLoad((signal) => get('/dead-letters/groups', {}, { signal }), 'groups', {
    on: ['message.dead', 'message.changed', 'missed'],
    every: 3_000,
  });
  const groups = useOrder(loaded.data?.items ?? [], (group) => group.fingerprint);
  const shown = groups.filter((group) => fits(group, query));
  const sum = groups.reduce((total, group) => total + group.count, 0);
  const empty =
    groups.length === 0
      ? html`<${Empty} title=${text.none} icon="✓"><p>${text.noneText}</p><//>`
      : html`<${Empty} title=${text.noMatch} />`;
  return html`
    <${Head} title=${text.title} about=${text.about}>
      ${groups.length > 0 ? html`<a class="button" href=${messagesWith({ state: 'dead' })}>${text.messages}</a>` : null}
    <//>
    ${groups.length > 0 ? html`<${Filters} groups=${groups} query=${query} />` : null}
    <${Card} flush title=${groups.length > 0 ? text.groups(count(groups.length), count(sum)) : null}>
      <${Loaded} of=${loaded}>
        ${(data) => html`
          ${data.more ? html`<p class="notice warn flat">${text.limited(count(data.scanned))}</p>` : null}
          <${Table}
            label=${text.title}
            columns=${columns(loaded.reload)}
            rows=${shown}
            id=${(group) => group.fingerprint}
            href=${(group) => to(['dead', group.fingerprint])}
            empty=${empty}
          />
        `}
      <//>
    <//>
  `;
}

export const Dead = ({ route }) =>
  route.parts[1]
    ? html`<${Group} fingerprint=${route.parts[1]} query=${route.query} />`
    : html`<${Groups} query=${route.query} />`;
