// Queue page: its numbers, pause, workers and the keys with the most messages.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { Chart } from '../../lib/chart.js';
import { useLoad } from '../../lib/live.js';
import { messagesWith } from '../../lib/links.js';
import { count, short } from '../../lib/number.js';
import { queues as cli } from '../../lib/cli_commands.js';
import { ON, Use, queueActions, withSlots } from '../../lib/queue.js';
import { to } from '../../lib/route.js';
import { Ago, When, duration } from '../../lib/time.js';
import { ActionButton, Card, Facts, Head, Loaded, Table, useToast } from '../../lib/ui.js';
import { Concurrency, PauseQueue, Purge } from './control_dialogs.js';
import { queues as text } from '../../texts.js';

const crumbs = html`<a href=${to(['queues'])}>${text.title}</a>`;
const MINUTE = 60;

async function load(name, signal) {
  const [queue, workers] = await Promise.all([
    get(`/queues/${pathSegment(name)}`, {}, { signal }),
    get('/workers', { limit: 1000 }, { signal }).catch(() => ({ items: [] })),
  ]);
  return withSlots(queue, workers.items);
}

function Actions({ queue, onDone }) {
  const [open, setOpen] = useState(null);
  const toast = useToast();
  const close = () => setOpen(null);
  const resume = async () => {
    await queueActions.resume(queue.name);
    toast({ text: text.act.resumed(queue.name) });
    onDone();
  };
  return html`
    <a class="button" href=${messagesWith({ queue: queue.name })}>${text.act.messages}</a>
    ${queue.paused
      ? html`<${ActionButton} kind="primary" cli=${cli.resume(queue.name)} onClick=${resume}>${text.act.resume}<//>`
      : html`<${ActionButton} cli=${cli.pause(queue.name)} onClick=${() => setOpen('pause')}>${text.act.pause}<//>`}
    <${ActionButton}
      cli=${cli.concurrency(queue.name, queue.concurrency ?? queue.serving?.[0]?.concurrency)}
      onClick=${() => setOpen('concurrency')}
    >
      ${text.act.concurrency}
    <//>
    <${ActionButton} cli=${cli.purge(queue.name)} onClick=${() => setOpen('purge')}>${text.act.purge}<//>
    ${open === 'pause' ? html`<${PauseQueue} name=${queue.name} onClose=${close} onDone=${onDone} />` : null}
    ${open === 'concurrency' ? html`<${Concurrency} queue=${queue} onClose=${close} onDone=${onDone} />` : null}
    ${open === 'purge' ? html`<${Purge} name=${queue.name} onClose=${close} onDone=${onDone} />` : null}
  `;
}

const PauseBox = ({ pause }) =>
  pause
    ? html`<section class="reason-box warn">
        <span class="sign" aria-hidden="true">Ⅱ</span>
        <div>
          <h2>${text.pausedBy(pause.by)}</h2>
          <p class="sentence">${pause.reason}</p>
          <p class="faint">
            ${text.since} <${When} at=${pause.at} /> (<${Ago} at=${pause.at} />), ${pause.until
              ? html`${text.until} <${When} at=${pause.until} /> (<${Ago} at=${pause.until} />)`
              : text.forever}
          </p>
        </div>
      </section>`
    : null;

function Tiles({ queue }) {
  const { name } = queue;
  const tile = (label, value, href, tone = '') =>
    href
      ? html`<a class="tile ${tone}" href=${href}>
          <span class="label">${label}</span>
          <span class="value">${value}</span>
        </a>`
      : html`<div class="tile ${tone}"><span class="label">${label}</span><span class="value">${value}</span></div>`;
  return html`<div class="tiles">
    ${queue.is_exact
      ? html`
          ${tile(
            text.detail.ready,
            short(queue.ready),
            messagesWith({ phase: 'ready', state: 'pending', queue: name }),
          )}
          ${tile(
            text.detail.scheduled,
            short(queue.scheduled),
            messagesWith({ phase: 'scheduled', state: 'pending', queue: name }),
          )}
        `
      : tile(text.detail.waiting, short(queue.pending), messagesWith({ state: 'pending', queue: name }))}
    ${tile(text.detail.running, short(queue.running), messagesWith({ state: 'running', queue: name }))}
    ${tile(
      text.detail.oldest,
      queue.oldest_age_ms === null ? '–' : duration(queue.oldest_age_ms),
      null,
      queue.oldest_age_ms > 60_000 ? 'warn' : '',
    )}
    ${tile(text.detail.in, text.perSecond(short(queue.rate.in_per_s)))}
    ${tile(text.detail.out, text.perSecond(short(queue.rate.out_per_s)))}
    ${tile(text.detail.dead, short(queue.dead), messagesWith({ state: 'dead', queue: name }), queue.dead ? 'bad' : '')}
  </div>`;
}

/** Age of the oldest due message over the last hour, when the server records it. */
function OldestAge({ name }) {
  const loaded = useLoad((signal) => get('/series', { name: 'queue_age', step: '10s' }, { signal }), name, {
    every: 10_000,
    poll: true,
  });
  const line = loaded.data?.series.find((one) => one.name === name);
  if (!line) return null;
  return html`<${Card} class="panel" title=${text.detail.age}>
    <${Chart}
      times=${loaded.data.times}
      series=${[{ label: name, colour: 'accent', values: line.values, fill: true }]}
      unit=${duration}
      label=${text.detail.age}
      height=${170}
    />
  <//>`;
}

function FinishedRate({ queue }) {
  const now = Math.floor(Date.now() / 1_000 / MINUTE) * MINUTE;
  const times = queue.spark.map((_, at) => now - (queue.spark.length - 1 - at) * MINUTE);
  return html`<${Card} class="panel" title=${text.detail.rate}>
    <${Chart}
      times=${times}
      series=${[{ label: text.detail.out, colour: 'good', values: queue.spark, fill: true }]}
      label=${text.detail.rate}
      height=${170}
    />
  <//>`;
}

const workerColumns = [
  {
    id: 'process',
    label: text.detail.process,
    cell: (one) => html`${one.worker.name} <span class="faint">${one.worker.host}</span>`,
  },
  {
    id: 'slots',
    label: text.detail.slots,
    class: 'right',
    cell: (one) => html`<${Use} queue=${{ slots: one.concurrency, running: one.running }} />`,
  },
];
const keyColumns = (queue) => [
  {
    id: 'key',
    label: text.detail.key,
    cell: (one) => html`<span class="clip long" title=${one.key}>${one.key}</span>`,
  },
  { id: 'pending', label: text.detail.pending, class: 'right num', cell: (one) => count(one.pending) },
  { id: 'running', label: text.detail.runningHere, class: 'right num', cell: (one) => count(one.running) },
];

function Details({ queue }) {
  return html`
    <${PauseBox} pause=${queue.paused} />
    <${Tiles} queue=${queue} />
    <div class="grid half"><${OldestAge} name=${queue.name} /><${FinishedRate} queue=${queue} /></div>
    <div class="grid half begin">
      <${Card} title=${text.detail.keys} note=${text.detail.keysNote} flush=${queue.keys.length > 0}>
        ${queue.keys.length === 0
          ? html`<p class="faint">${text.detail.noKeys}</p>`
          : html`<${Table}
              label=${text.detail.keys}
              columns=${keyColumns(queue)}
              rows=${queue.keys}
              id=${(one) => one.key}
              href=${(one) => messagesWith({ queue: queue.name, key: one.key })}
            />`}
      <//>
      <div class="stack">
        <${Card} title=${text.detail.workers} flush=${queue.serving.length > 0}>
          ${queue.serving.length === 0
            ? html`<p class="faint">${text.detail.noWorkers}</p>`
            : html`<${Table}
                label=${text.detail.workers}
                columns=${workerColumns}
                rows=${queue.serving}
                id=${(one) => one.worker.process}
                href=${() => to(['workers'])}
              />`}
        <//>
        <${Card} title=${text.detail.limits}>
          <${Facts}
            rows=${[
              [text.detail.here, queue.concurrency ?? text.detail.notHere],
              [text.detail.total, count(queue.slots)],
            ]}
          />
        <//>
      </div>
    </div>
  `;
}

export function Queue({ name }) {
  const loaded = useLoad((signal) => load(name, signal), name, { on: ON, every: 2_000, poll: true });
  return html`
    <${Head} title=${name} crumbs=${crumbs}>
      ${loaded.data ? html`<${Actions} queue=${loaded.data} onDone=${loaded.reload} />` : null}
    <//>
    ${loaded.data
      ? html`<${Loaded} of=${loaded}>${(queue) => html`<${Details} queue=${queue} />`}<//>`
      : html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`}
  `;
}
