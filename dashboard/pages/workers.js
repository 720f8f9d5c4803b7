// Workers page: every process with its roles, queues and slots, and buttons to quiet or wake it.

import { html, useState } from '../lib/html.js';
import { get, pathSegment, post } from '../lib/api.js';
import { workers as cli } from '../lib/cli_commands.js';
import { useLoad } from '../lib/live.js';
import { queuePage } from '../lib/links.js';
import { bytes, count } from '../lib/number.js';
import { Use } from '../lib/queue.js';
import { Ago, duration, useTick } from '../lib/time.js';
import { ActionButton, Badge, Card, Confirm, Empty, Head, Loaded, Table, useToast } from '../lib/ui.js';
import { workers as text } from '../texts.js';

const ON = ['process.started', 'process.stopping', 'process.stopped', 'missed'];
/** Age of the last heartbeat in milliseconds after which a process may be gone. */
const LATE = 30_000;

function State({ worker }) {
  useTick();
  if (Date.now() - new Date(worker.seen_at) > LATE) return html`<${Badge} tone="bad">${text.states.late}<//>`;
  if (worker.stopping) return html`<${Badge} tone="warn">${text.states.stopping}<//>`;
  if (worker.quiet)
    return html`<span class="flags">
      <${Badge} tone="warn">${text.states.quiet}<//>
      ${worker.running > 0 ? html`<${Badge} tone="busy">${text.running(worker.running)}<//>` : null}
    </span>`;
  return html`<span class="flags">
    <${Badge} tone=${worker.running > 0 ? 'busy' : 'good'}>
      ${worker.running > 0 ? text.running(worker.running) : text.states.idle}
    <//>
  </span>`;
}

const Name = ({ worker }) =>
  html`
    <b class="clip" title=${worker.process}>${worker.name}</b>
    <span class="faint small-text mono clip">
      ${[worker.host, worker.pid].filter(Boolean).join(':')} · ${worker.version}
    </span>
  `;
const Roles = ({ worker }) =>
  html`<span class="flags">
    <${Badge} tone="idle">${text.kinds[worker.kind] ?? worker.kind}<//>
    ${(worker.roles ?? []).map((role) => html`<${Badge} key=${role}>${role}<//>`)}
  </span>`;
const Queues = ({ worker }) => html`<span class="slots">
  ${worker.queues.map(
    (queue) =>
      html`<span key=${queue.name}>
        <a class="soft clip narrow" href=${queuePage(queue.name)}>${queue.name}</a>
        <${Use} queue=${{ slots: queue.concurrency, running: queue.running }} />
      </span>`,
  )}
  ${worker.topics?.length
    ? html`<span class="faint small-text" title=${worker.topics.join(', ')}>${text.topics(worker.topics.length)}</span>`
    : null}
</span>`;

function Uptime({ worker }) {
  useTick();
  return html`<span class="num">
    ${duration(Math.floor((Date.now() - new Date(worker.started_at)) / 1_000) * 1_000)}
  </span>`;
}

function Quiet({ worker, onDone }) {
  const [asking, setAsking] = useState(false);
  const toast = useToast();
  const wake = async () => {
    await post(`/workers/${pathSegment(worker.process)}/wake`);
    toast({ text: text.wake.done(worker.name) });
    onDone();
  };
  if (worker.quiet && !worker.stopping)
    return html`<${ActionButton}
      kind="small"
      label=${`${text.wake.label}: ${worker.name}`}
      cli=${cli.wake(worker.process)}
      onClick=${wake}
    >
      ${text.wake.label}
    <//>`;
  const quiet = async () => {
    await post(`/workers/${pathSegment(worker.process)}/quiet`);
    toast({ text: text.quiet.done(worker.name) });
    onDone();
  };
  return html`
    <${ActionButton}
      kind="small"
      label=${`${text.quiet.label}: ${worker.name}`}
      disabled=${worker.stopping}
      cli=${cli.quiet(worker.process)}
      onClick=${() => setAsking(true)}
    >
      ${text.quiet.label}
    <//>
    ${asking
      ? html`<${Confirm}
          title=${text.quiet.title(worker.name)}
          text=${text.quiet.text(worker.running)}
          button=${text.quiet.label}
          cli=${cli.quiet(worker.process)}
          onDo=${quiet}
          onClose=${() => setAsking(false)}
        />`
      : null}
  `;
}

const columns = (onDone) => [
  { id: 'name', label: text.columns.name, cell: (worker) => html`<${Name} worker=${worker} />` },
  { id: 'state', label: text.columns.state, cell: (worker) => html`<${State} worker=${worker} />` },
  { id: 'roles', label: text.columns.roles, cell: (worker) => html`<${Roles} worker=${worker} />` },
  { id: 'queues', label: text.columns.queues, cell: (worker) => html`<${Queues} worker=${worker} />` },
  { id: 'memory', label: text.columns.memory, class: 'right num roomy', cell: (worker) => bytes(worker.memory_bytes) },
  {
    id: 'started',
    label: text.columns.started,
    class: 'nowrap roomy',
    cell: (worker) => html`<${Uptime} worker=${worker} />`,
  },
  { id: 'seen', label: text.columns.seen, class: 'nowrap', cell: (worker) => html`<${Ago} at=${worker.seen_at} />` },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (worker) => html`<${Quiet} worker=${worker} onDone=${onDone} />`,
  },
];

function Totals({ items }) {
  const sum = (pick) => items.reduce((total, worker) => total + (pick(worker) ?? 0), 0);
  const tile = (label, value) =>
    html`<div class="tile"><span class="label">${label}</span><span class="value">${value}</span></div>`;
  return html`<div class="tiles">
    ${tile(text.totals.processes, count(items.length))}
    ${tile(
      text.totals.slots,
      count(sum((worker) => worker.queues.reduce((total, queue) => total + (queue.concurrency ?? 0), 0))),
    )}
    ${tile(text.totals.running, count(sum((worker) => worker.running)))}
    ${tile(text.totals.memory, bytes(sum((worker) => worker.memory_bytes)))}
  </div>`;
}

export function Workers() {
  const loaded = useLoad((signal) => get('/workers', { limit: 1000 }, { signal }), 'workers', {
    on: ON,
    every: 2_000,
    poll: true,
  });
  return html`
    <${Head} title=${text.title} about=${text.about} />
    ${loaded.data?.items.length > 1 ? html`<${Totals} items=${loaded.data.items} />` : null}
    <${Card} flush>
      <${Loaded} of=${loaded}>
        ${({ items }) =>
          html`<${Table}
            label=${text.title}
            columns=${columns(loaded.reload)}
            rows=${items}
            id=${(worker) => worker.process}
            empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
          />`}
      <//>
    <//>
  `;
}
