// Batches page: the progress of each batch, and one batch with its messages.

import { html, useState } from '../lib/html.js';
import { get, pathSegment, post } from '../lib/api.js';
import { useLoad } from '../lib/live.js';
import { to } from '../lib/route.js';
import { batches as lines } from '../lib/cli_commands.js';
import { batchPage, messagePage, messagesWith } from '../lib/links.js';
import { MoreRows, NewRows, useLiveList } from '../lib/live_list.js';
import { Ago } from '../lib/time.js';
import { count, short } from '../lib/number.js';
import { ActionButton, Card, Confirm, Empty, Head, Loaded, StateBadge, Table, useToast } from '../lib/ui.js';
import { batches as text } from '../texts.js';

const ON = [
  'message.enqueued',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'message.dead',
  'message.changed',
];
const STATES = ['done', 'dead', 'cancelled', 'running', 'pending'];

const ended = (batch) => batch.done + batch.dead + batch.cancelled;
const left = (batch) => batch.pending + batch.running;
const name = (id) => html`<code class="clip" title=${id}>${id}</code>`;

/** Stacked bar of the states of a batch. */
export function Parts({ batch }) {
  const percent = batch.total ? Math.floor((ended(batch) / batch.total) * 100) : 0;
  const label = `${text.label(count(ended(batch)), count(batch.total))}: ${STATES.filter((state) => batch[state])
    .map((state) => `${count(batch[state])} ${text.states[state]}`)
    .join(', ')}`;
  return html`<span class="parts-of" title=${label}>
    <span class="parts" role="img" aria-label=${label}>
      ${STATES.map((state) =>
        batch[state] ? html`<i key=${state} class=${state} style=${{ flexGrow: batch[state] }}></i>` : null,
      )}
    </span>
    <span class="num">${percent} %</span>
  </span>`;
}

const number = (id, colour) => ({
  id,
  label: text.columns[id],
  class: 'right num',
  cell: (batch) => html`<span class=${batch[id] ? colour : 'faint'}>${short(batch[id])}</span>`,
});
const COLUMNS = [
  { id: 'id', label: text.columns.id, cell: (batch) => name(batch.id) },
  { id: 'progress', label: text.columns.progress, cell: (batch) => html`<${Parts} batch=${batch} />` },
  number('total', ''),
  number('done', ''),
  number('dead', 'bad-text'),
  number('running', ''),
  number('pending', ''),
  {
    id: 'created',
    label: text.columns.created,
    class: 'nowrap',
    cell: (batch) => html`<${Ago} at=${batch.created_at} />`,
  },
];

function List({ query }) {
  const list = useLiveList('/batches', { after: query.after }, { id: (batch) => batch.id, on: ON });
  return html`
    <${Head} title=${text.title} about=${text.about} />
    <${Card} flush>
      <${NewRows} of=${list} />
      <${Loaded} of=${list}>
        ${(rows) =>
          html`<${Table}
            columns=${COLUMNS}
            rows=${rows}
            id=${(batch) => batch.id}
            href=${(batch) => batchPage(batch.id)}
            empty=${html`<${Empty} title=${text.none.title} icon="▤"><p>${text.none.text}</p><//>`}
          />`}
      <//>
      <${MoreRows} of=${list} after=${query.after} />
    <//>
  `;
}

const MESSAGE_COLUMNS = [
  {
    id: 'topic',
    label: text.columnsOf.topic,
    cell: (message) =>
      html`<span class="clip">${message.job ?? message.topic}${message.key ? ` · ${message.key}` : ''}</span>`,
  },
  { id: 'state', label: text.columnsOf.state, cell: (message) => html`<${StateBadge} word=${message.phase} />` },
  {
    id: 'attempt',
    label: text.columnsOf.attempt,
    class: 'right num',
    cell: (message) => `${message.attempt}/${message.attempts_max ?? '∞'}`,
  },
  { id: 'due', label: text.columnsOf.due, class: 'nowrap', cell: (message) => html`<${Ago} at=${message.due_at} />` },
  {
    id: 'error',
    label: text.columnsOf.error,
    cell: (message) => html`<span class="clip long soft">${message.error ?? ''}</span>`,
  },
];

function Messages({ id, query }) {
  const list = useLiveList('/messages', { batch: id, after: query.after }, { id: (message) => message.id, on: ON });
  return html`<${Card}
    title=${text.messages}
    actions=${html`<a href=${messagesWith({ batch: id })}>${text.all}</a>`}
    flush
  >
    <${NewRows} of=${list} />
    <${Loaded} of=${list}>
      ${(rows) =>
        html`<${Table}
          columns=${MESSAGE_COLUMNS}
          rows=${rows}
          id=${(message) => message.id}
          href=${(message) => messagePage(message.id)}
          empty=${html`<${Empty} title=${text.noMessages} />`}
        />`}
    <//>
    <${MoreRows} of=${list} after=${query.after} />
  <//>`;
}

function Cancel({ batch, reload }) {
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  const cli = lines.cancel(batch.id);
  const cancel = async () => {
    await post(`/batches/${pathSegment(batch.id)}/cancel`);
    toast({ text: text.confirm.done });
    reload();
  };
  return html`
    <${ActionButton}
      kind="danger"
      disabled=${left(batch) === 0}
      title=${left(batch) === 0 ? text.finished : null}
      cli=${cli}
      onClick=${() => setAsking(true)}
    >
      ${text.cancel}
    <//>
    ${asking
      ? html`<${Confirm}
          title=${text.confirm.title}
          text=${text.confirm.text(count(left(batch)))}
          button=${text.confirm.button(count(left(batch)))}
          cli=${cli}
          onDo=${cancel}
          onClose=${() => setAsking(false)}
        />`
      : null}
  `;
}

function Detail({ batch, query, reload }) {
  const tile = (state) =>
    html`<a
      key=${state}
      class="tile ${state === 'dead' && batch.dead ? 'bad' : ''}"
      href=${messagesWith({ batch: batch.id, state })}
    >
      <span class="label">${text.states[state]}</span>
      <span class="value">${count(batch[state])}</span>
    </a>`;
  return html`
    <${Head}
      title=${batch.id}
      about=${html`${text.made} <${Ago} at=${batch.created_at} />`}
      crumbs=${html`<a href=${to(['batches'])}>${text.crumb}</a>`}
    >
      <${Cancel} batch=${batch} reload=${reload} />
    <//>
    <${Card}><div class="big-parts"><${Parts} batch=${batch} /></div><//>
    <div class="tiles">${STATES.map(tile)}</div>
    <${Messages} id=${batch.id} query=${query} />
  `;
}

function One({ id, query }) {
  const loaded = useLoad((signal) => get(`/batches/${pathSegment(id)}`, {}, { signal }), id, { on: ON, every: 1_000 });
  return html`<${Loaded} of=${loaded}>
    ${(batch) => html`<${Detail} batch=${batch} query=${query} reload=${loaded.reload} />`}
  <//>`;
}

/** `#/batches` is the list, `#/batches/ID` is one batch. */
export function Batches({ route }) {
  const id = route.parts[1];
  return id ? html`<${One} key=${id} id=${id} query=${route.query} />` : html`<${List} query=${route.query} />`;
}
