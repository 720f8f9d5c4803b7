// Queues page: the list of queues, or one queue.

import { html, useState } from '../lib/html.js';
import { useLoad } from '../lib/live.js';
import { messagesWith, queuePage } from '../lib/links.js';
import { count, short } from '../lib/number.js';
import { queues as cli } from '../lib/cli_commands.js';
import { ON, Paused, Use, queueActions, isTransportQueue, loadQueues } from '../lib/queue.js';
import { duration } from '../lib/time.js';
import { ActionButton, Card, Empty, Head, Loaded, Sparkline, Table, useToast } from '../lib/ui.js';
import { PauseQueue } from './queue/control_dialogs.js';
import { Queue } from './queue/detail.js';
import { queues as text } from '../texts.js';

/** Waiting time in milliseconds from which the age is coloured. */
const LONG = 60_000;
const VERY_LONG = 600_000;

export const Oldest = ({ queue }) =>
  queue.oldest_age_ms === null || queue.oldest_age_ms === undefined
    ? html`<span class="faint" title=${text.noAge}>–</span>`
    : html`<span
        class="num ${queue.oldest_age_ms > VERY_LONG ? 'tone-bad' : queue.oldest_age_ms > LONG ? 'tone-warn' : ''}"
      >
        ${duration(queue.oldest_age_ms)}
      </span>`;

const Rate = ({ rate }) =>
  html`<span class="two-lines num">
    <span><span class="faint">${text.inRate}</span> ${text.perSecond(short(rate.in_per_s))}</span>
    <span><span class="faint">${text.outRate}</span> ${text.perSecond(short(rate.out_per_s))}</span>
  </span>`;
const Waiting = ({ queue }) =>
  queue.is_exact
    ? html`<span class="two-lines num">
        <span>${text.ready(short(queue.ready))}</span>
        <span class="faint small-text">${text.scheduled(short(queue.scheduled))}</span>
      </span>`
    : html`<span class="num">${text.waiting(short(queue.pending))}</span>`;

function RowActions({ queue, onPause, onDone }) {
  const toast = useToast();
  const resume = async () => {
    await queueActions.resume(queue.name);
    toast({ text: text.act.resumed(queue.name) });
    onDone();
  };
  return queue.paused
    ? html`<${ActionButton}
        kind="small"
        label=${`${text.act.resume}: ${queue.name}`}
        cli=${cli.resume(queue.name)}
        onClick=${resume}
      >
        ${text.act.resume}
      <//>`
    : html`<${ActionButton}
        kind="small"
        label=${`${text.act.pause}: ${queue.name}`}
        cli=${cli.pause(queue.name)}
        onClick=${() => onPause(queue.name)}
      >
        ${text.act.pause}
      <//>`;
}

const columns = (onPause, onDone) => [
  {
    id: 'name',
    label: text.columns.name,
    cell: (queue) =>
      html`
        <span class="inline">
          <span class="clip" title=${queue.name}>${queue.name}</span>
          <${Paused} pause=${queue.paused} />
        </span>
        ${queue.paused
          ? html`<span class="faint small-text clip">${queue.paused.by}: ${queue.paused.reason}</span>`
          : isTransportQueue(queue.name)
            ? html`<span class="faint small-text">${text.line}</span>`
            : null}
      `,
  },
  { id: 'waiting', label: text.columns.waiting, class: 'nowrap', cell: (queue) => html`<${Waiting} queue=${queue} />` },
  { id: 'oldest', label: text.columns.oldest, class: 'nowrap', cell: (queue) => html`<${Oldest} queue=${queue} />` },
  { id: 'use', label: text.columns.use, cell: (queue) => html`<${Use} queue=${queue} />` },
  { id: 'rate', label: text.columns.rate, class: 'nowrap', cell: (queue) => html`<${Rate} rate=${queue.rate} />` },
  {
    id: 'spark',
    label: text.columns.spark,
    cell: (queue) =>
      html`<${Sparkline}
        values=${queue.spark}
        label=${text.spark(count(queue.spark.reduce((sum, one) => sum + one, 0)))}
      />`,
  },
  {
    id: 'dead',
    label: text.columns.dead,
    class: 'right num',
    cell: (queue) =>
      queue.dead
        ? html`<a class="failure" href=${messagesWith({ state: 'dead', queue: queue.name })}>${count(queue.dead)}</a>`
        : html`<span class="faint">0</span>`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (queue) => html`<${RowActions} queue=${queue} onPause=${onPause} onDone=${onDone} />`,
  },
];

function Queues() {
  const [pausing, setPausing] = useState(null);
  const loaded = useLoad(loadQueues, 'queues', { on: ON, every: 2_000, poll: true });
  return html`
    <${Head} title=${text.title} about=${text.about} />
    <${Card} flush>
      <${Loaded} of=${loaded}>
        ${(queues) => html`<${Table}
          label=${text.title}
          columns=${columns(setPausing, loaded.reload)}
          rows=${queues}
          id=${(queue) => queue.name}
          href=${(queue) => queuePage(queue.name)}
          empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
        />`}
      <//>
    <//>
    ${pausing
      ? html`<${PauseQueue} name=${pausing} onClose=${() => setPausing(null)} onDone=${loaded.reload} />`
      : null}
  `;
}

export const QueuesOrQueue = ({ route }) =>
  route.parts[1] ? html`<${Queue} name=${route.parts[1]} />` : html`<${Queues} />`;
