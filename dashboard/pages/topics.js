// Topics, subscriptions and transports.

import { html } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/live.js';
import { messagesWith } from '../lib/links.js';
import { short } from '../lib/number.js';
import { to } from '../lib/route.js';
import { Ago } from '../lib/time.js';
import { Badge, Card, Empty, Head, Loaded, Table, Tabs } from '../lib/ui.js';
import { Subscriptions } from './topics/subscriptions.js';
import { Transports } from './topics/transports.js';
import { topics as text } from '../texts.js';

const Handlers = ({ of }) =>
  html`<span class="flags">
    ${of.handlers ? html`<${Badge} tone="good">${text.handler}<//>` : null}
    ${of.groups.length > 0
      ? html`<${Badge} tone="idle" title=${of.groups.join(', ')}>${text.groups(of.groups.length)}<//>`
      : null}
    ${!of.handlers && of.groups.length === 0 ? html`<${Badge} tone="warn">${text.noHandler}<//>` : null}
  </span>`;

const columns = [
  {
    id: 'topic',
    label: text.columns.topic,
    cell: (one) => html`<span class="clip long" title=${one.topic}>${one.topic}</span>`,
  },
  {
    id: 'carried',
    label: text.columns.carried,
    cell: (one) => one.transport ?? html`<span class="faint">${text.storage}</span>`,
  },
  { id: 'handled', label: text.columns.handled, cell: (one) => html`<${Handlers} of=${one} />` },
  { id: 'published', label: text.columns.published, class: 'right num', cell: (one) => short(one.published) },
  { id: 'done', label: text.columns.done, class: 'right num', cell: (one) => short(one.handled) },
  {
    id: 'failed',
    label: text.columns.failed,
    class: 'right num',
    cell: (one) =>
      one.failed ? html`<span class="tone-bad">${short(one.failed)}</span>` : html`<span class="faint">0</span>`,
  },
  { id: 'last', label: text.columns.last, class: 'nowrap', cell: (one) => html`<${Ago} at=${one.last_at} />` },
];

function TopicList() {
  const loaded = useLoad((signal) => get('/topics', {}, { signal }), 'topics', { every: 5_000, poll: true });
  return html`<${Card} flush>
    <${Loaded} of=${loaded}>
      ${({ items, more }) => html`
        ${more ? html`<p class="notice flat">${text.more}</p>` : null}
        <${Table}
          label=${text.title}
          columns=${columns}
          rows=${items}
          id=${(one) => `${one.topic} ${one.transport}`}
          href=${(one) => messagesWith({ topic: one.topic })}
          empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
        />
      `}
    <//>
  <//>`;
}

const SHOWN = { topics: TopicList, subscriptions: Subscriptions, transports: Transports };

export function Topics({ route }) {
  const tab = SHOWN[route.query.tab] ? route.query.tab : 'topics';
  const Shown = SHOWN[tab];
  return html`
    <${Head} title=${text.title} about=${text.about} />
    <${Tabs}
      current=${tab}
      tabs=${Object.entries(text.tabs).map(([id, label]) => ({
        id,
        label,
        href: to(['topics'], { tab: id === 'topics' ? null : id }),
      }))}
    />
    <${Shown} key=${tab} />
  `;
}
