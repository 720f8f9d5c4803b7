// Message list: tabs by state, the filter, and bulk actions.

import { html, useEffect, useRef, useState } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { parameters, parse, valueOf } from '../../lib/filter.js';
import { FilterBar } from '../../lib/filterbar.js';
import { jobPage, messagePage, queuePage } from '../../lib/links.js';
import { Id } from '../../lib/copy.js';
import { messages as cli } from '../../lib/cli_commands.js';
import { ON, Phase, attempts } from '../../lib/message.js';
import { MoreRows, NewRows, emptyReason, useLiveList } from '../../lib/live_list.js';
import { refine } from '../../lib/route.js';
import { Ago } from '../../lib/time.js';
import { ActionButton, Card, Empty, Head, Loaded, Table } from '../../lib/ui.js';
import { Selection } from './bulk.js';
import { Send } from './send.js';
import { StateTabs, totalOf, useCounts } from './tabs.js';
import { Views } from './views.js';
import { messages as text } from '../../texts.js';

/** Suggested values: names known to the server, and keys of the rows shown so far. */
export function useValues(rows) {
  const [known, setKnown] = useState({});
  const asked = useRef(false);
  const load = async () => {
    if (asked.current) return;
    asked.current = true;
    const names = (path, pick) =>
      get(path, { limit: 1000 }).then(
        (found) => found.items.map(pick),
        () => [],
      );
    const [topic, queue, job] = await Promise.all([
      names('/topics', (one) => one.topic),
      names('/queues', (one) => one.name),
      names('/jobs', (one) => one.name),
    ]);
    setKnown({ topic, queue, job });
  };
  return { load, values: { ...known, key: [...new Set(rows.map((row) => row.key).filter(Boolean))] } };
}

const TopicCell = ({ message }) => html`<span class="clip" title=${message.topic}>${message.topic}</span>`;
const faint = html`<span class="faint dash">–</span>`;

/** Due time, or end. */
const DueOrEnded = ({ message }) =>
  html`<span class="two-lines">
    <${Ago} at=${message.ended_at ?? message.due_at} />
    <span class="faint small-text">
      ${text.moment[message.ended_at ? 'ended' : message.state === 'running' ? 'running' : 'due']}
    </span>
  </span>`;
const MessageCell = ({ message }) =>
  html`<span class="two-lines">
    <a class="soft clip narrow" title=${message.queue} href=${queuePage(message.queue)}>${message.queue}</a>
    ${message.key ? html`<span class="faint small-text clip narrow" title=${message.key}>${message.key}</span>` : null}
  </span>`;

const columns = [
  {
    id: 'message',
    label: text.columns.message,
    cell: (row) => html`<${TopicCell} message=${row} /><${Id} id=${row.id} />`,
  },
  { id: 'state', label: text.columns.state, cell: (row) => html`<${Phase} message=${row} />` },
  { id: 'queue', label: text.columns.queue, cell: (row) => html`<${MessageCell} message=${row} />` },
  {
    id: 'job',
    label: text.columns.job,
    class: 'roomy',
    cell: (row) =>
      row.job ? html`<a class="soft clip narrow" title=${row.job} href=${jobPage(row.job)}>${row.job}</a>` : faint,
  },
  { id: 'due', label: text.columns.due, class: 'nowrap', cell: (row) => html`<${DueOrEnded} message=${row} />` },
  {
    id: 'made',
    label: text.columns.made,
    class: 'nowrap wide-only',
    cell: (row) => html`<${Ago} at=${row.created_at} />`,
  },
  { id: 'attempt', label: text.columns.attempt, class: 'right num', cell: (row) => attempts(row) },
  {
    id: 'error',
    label: text.columns.error,
    cell: (row) => (row.error ? html`<span class="clip failure" title=${row.error}>${row.error}</span>` : faint),
  },
];

const NONE = {
  soFar: () => html`<${Empty} title=${text.soFar}><p>${text.soFarText(text.older)}</p><//>`,
  noMatch: () =>
    html`<${Empty} title=${text.noMatch}>
      <p>${text.noMatchText}</p>
      <button onClick=${() => refine({ q: null, after: null })}>${text.clearFilter}</button>
    <//>`,
  none: () => html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`,
};

/** Selection; a new filter clears it. */
function useSelection(q) {
  const [selected, setSelected] = useState(new Set());
  const [everything, setEverything] = useState(false);
  useEffect(() => {
    setSelected(new Set());
    setEverything(false);
  }, [q]);
  const select = (next) => {
    setSelected(next);
    setEverything(false);
  };
  return { selected, everything, select, setEverything };
}

/** Matching messages, and the actions for them. */
function Matching({ q, after, list, counts, onDone }) {
  const { selected, everything, select, setEverything } = useSelection(q);
  return html`<${Card} flush>
    <${Selection}
      shown=${list.rows.length}
      total=${totalOf(q, counts)}
      selected=${selected}
      everything=${everything}
      onSelect=${select}
      onEverything=${setEverything}
      filter=${parameters(q)}
      onDone=${onDone}
    />
    <${NewRows} of=${list} />
    <${Loaded} of=${list} skeleton=${10}>
      ${(rows) => html`<${Table}
        label=${text.title}
        columns=${columns}
        rows=${rows}
        id=${(row) => row.id}
        href=${(row) => messagePage(row.id)}
        stale=${list.stale}
        selected=${everything ? new Set(rows.map((row) => row.id)) : selected}
        onSelect=${select}
        empty=${NONE[emptyReason(list.next, q)]()}
      />`}
    <//>
    <${MoreRows} of=${list} after=${after} />
  <//>`;
}

function Found({ q, after }) {
  const [sending, setSending] = useState(false);
  const list = useLiveList('/messages', () => ({ ...parameters(q), after }), {
    id: (row) => row.id,
    on: ON,
    every: 2_000,
    name: [q, after],
  });
  const { counts, reload } = useCounts(q);
  const { load, values } = useValues(list.rows);
  const again = () => {
    list.refresh();
    reload();
  };
  return html`
    <${Top} onSend=${() => setSending(true)} />
    <${StateTabs} q=${q} counts=${counts} current=${valueOf(q, 'state') ?? 'all'} />
    <div class="filters">
      <${FilterBar} value=${q} onApply=${apply} values=${values} onFocus=${load} />
      <${Views} page="messages" query=${q} onApply=${apply} />
    </div>
    <${Matching} q=${q} after=${after} list=${list} counts=${counts} onDone=${again} />
    ${sending ? html`<${Send} onClose=${() => setSending(false)} onDone=${again} />` : null}
  `;
}

const apply = (next) => refine({ q: next, after: null }, {});
const Top = ({ onSend }) =>
  html`<${Head} title=${text.title} about=${text.about}>
    ${onSend ? html`<${ActionButton} kind="primary" cli=${cli.publish({})} onClick=${onSend}>${text.send}<//>` : null}
  <//>`;

/** Placeholder for an invalid filter: without the invalid part it would match more than intended. */
const InvalidFilter = ({ q }) => html`
  <${Top} />
  <div class="filters"><${FilterBar} value=${q} onApply=${apply} values=${{}} /></div>
  <${Card}>
    <${Empty} title=${text.mistaken} icon="!">
      <p>${text.mistakenText}</p>
      <button onClick=${() => apply('')}>${text.clearFilter}</button>
    <//>
  <//>
`;

export function Messages({ route }) {
  const { q = '', after } = route.query;
  return parse(q).problems.length > 0 ? html`<${InvalidFilter} q=${q} />` : html`<${Found} q=${q} after=${after} />`;
}
