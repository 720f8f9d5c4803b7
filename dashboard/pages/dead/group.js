// Dead letter group: the failure, when it happened, and its messages.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { jobPage, messagePage } from '../../lib/links.js';
import { Id } from '../../lib/copy.js';
import { ON, attempts } from '../../lib/message.js';
import { count } from '../../lib/number.js';
import { MoreRows, NewRows, useLiveList } from '../../lib/live_list.js';
import { to } from '../../lib/route.js';
import { Ago, When } from '../../lib/time.js';
import { Card, Empty, Facts, Head, Loaded, StateBadge, Table } from '../../lib/ui.js';
import { GroupActions, Hours } from './group_actions.js';
import { dead as text } from '../../texts.js';

const crumbs = html`<a href=${to(['dead'])}>${text.group.crumb}</a>`;

const columns = [
  {
    id: 'message',
    label: text.letters.message,
    cell: (row) => html`<span class="clip" title=${row.topic}>${row.topic}</span><${Id} id=${row.id} />`,
  },
  { id: 'ended', label: text.letters.ended, class: 'nowrap', cell: (row) => html`<${Ago} at=${row.ended_at} />` },
  { id: 'made', label: text.letters.made, class: 'nowrap', cell: (row) => html`<${Ago} at=${row.created_at} />` },
  { id: 'attempt', label: text.letters.attempt, class: 'right num', cell: (row) => attempts(row) },
  { id: 'queue', label: text.letters.queue, cell: (row) => html`<span class="clip narrow">${row.queue}</span>` },
  {
    id: 'key',
    label: text.letters.key,
    cell: (row) =>
      row.key
        ? html`<span class="clip narrow" title=${row.key}>${row.key}</span>`
        : html`<span class="faint dash">–</span>`,
  },
  {
    id: 'error',
    label: text.letters.error,
    cell: (row) => html`<span class="clip failure" title=${row.error}>${row.error ?? text.noError}</span>`,
  },
];

function About({ group }) {
  const own = text.group;
  const rows = [
    [own.topic, group.topic],
    group.job ? [own.job, html`<a href=${jobPage(group.job)}>${group.job}</a>`] : null,
    [own.count, count(group.count)],
    group.reason ? [own.reason, html`<${StateBadge} word=${group.reason} />`] : null,
    [own.first, html`<${When} at=${group.first_at} seconds=${false} />`],
    [own.last, html`<${When} at=${group.last_at} seconds=${false} />`],
    [own.sample, html`<a href=${messagePage(group.sample_id)}><${Id} id=${group.sample_id} /></a>`],
  ];
  return html`<div class="grid two">
    <div class="stack">
      <${Card}><pre class="bare" tabindex="0">${group.error ?? text.noError}</pre><//>
      <${Card} title=${own.trend}>
        <div class="per-hour-wide"><${Hours} values=${group.per_hour} width=${480} height=${72} /></div>
      <//>
    </div>
    <${Card} title=${own.facts}><${Facts} rows=${rows} /><//>
  </div>`;
}

export function Group({ fingerprint, query }) {
  const loaded = useLoad((signal) => get('/dead-letters/groups', {}, { signal }), 'groups', {
    on: ['message.dead', 'message.changed', 'missed'],
    every: 3_000,
  });
  const list = useLiveList(
    '/dead-letters',
    { group: fingerprint, after: query.after },
    { id: (row) => row.id, on: ON },
  );
  const group = loaded.data?.items.find((one) => one.fingerprint === fingerprint);
  const again = () => {
    loaded.reload();
    list.refresh();
  };
  return html`
    <${Head} title=${group ? (group.job ?? group.topic) : fingerprint} crumbs=${crumbs}>
      ${group ? html`<${GroupActions} group=${group} onDone=${again} kind="" />` : null}
    <//>
    ${group
      ? html`<${About} group=${group} />`
      : loaded.data
        ? html`<${Card}><${Empty} title=${text.group.notFound}><p>${text.group.notFoundText}</p><//><//>`
        : html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`}
    ${group || list.rows.length > 0
      ? html`<${Card} title=${text.group.list} flush>
          <${NewRows} of=${list} />
          <${Loaded} of=${list}>
            ${(rows) =>
              html`<${Table}
                label=${text.group.list}
                columns=${columns}
                rows=${rows}
                stale=${list.stale}
                id=${(row) => row.id}
                href=${(row) => messagePage(row.id)}
              />`}
          <//>
          <${MoreRows} of=${list} after=${query.after} />
        <//>`
      : null}
  `;
}
