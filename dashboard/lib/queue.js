// Queue components shared by the list and the page of a queue: slots in use, pause badge, and API calls.

import { html } from './html.js';
import { get, pathSegment, post } from './api.js';
import { Badge } from './ui.js';
import { clock } from './time.js';
import { queues as text } from '../texts.js';

export const ON = [
  'queue.changed',
  'message.enqueued',
  'message.dead',
  'message.changed',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
  'process.started',
  'process.stopped',
  'missed',
];

/** Loads queues with the slots of every process that serves them. */
export async function loadQueues(signal) {
  const [queues, workers] = await Promise.all([
    get('/queues', {}, { signal }),
    get('/workers', { limit: 1000 }, { signal }).catch(() => ({ items: [] })),
  ]);
  return queues.items.map((queue) => withSlots(queue, workers.items));
}

/** Adds the processes that serve a queue, and how many messages they can handle in parallel. */
export function withSlots(queue, workers) {
  const serving = workers.flatMap((worker) =>
    worker.queues.filter((one) => one.name === queue.name).map((one) => ({ ...one, worker })),
  );
  const slots = serving.reduce((sum, one) => sum + (one.concurrency ?? 0), 0) || queue.concurrency || 0;
  return { ...queue, serving, slots };
}

/** Meter of the slots in use. */
export function Use({ queue }) {
  if (!queue.slots)
    return html`<span class=${queue.oldest_age_ms !== null ? 'failure' : 'faint'}>${text.noWorker}</span>`;
  const label = text.useLabel(queue.running, queue.slots);
  return html`<span class="use">
    <meter
      min="0"
      max=${queue.slots}
      value=${Math.min(queue.running, queue.slots)}
      aria-label=${label}
      title=${label}
    ></meter>
    <span class="num">${text.use(queue.running, queue.slots)}</span>
  </span>`;
}

/** Badge of a paused queue: by whom, why and until when. */
export function Paused({ pause }) {
  if (!pause) return null;
  const end = pause.until ? `${text.until} ${clock(pause.until)}` : text.forever;
  return html`<${Badge} tone="warn" title=${`${text.pausedBy(pause.by)}: ${pause.reason}. ${end}`}>${text.paused}<//>`;
}

/** Whether a queue is the internal queue of a transport. */
export const isTransportQueue = (name) => name.startsWith('~');

const at = (name, verb) => `/queues/${pathSegment(name)}/${verb}`;
export const queueActions = {
  pause: (name, body) => post(at(name, 'pause'), body),
  resume: (name) => post(at(name, 'resume')),
  concurrency: (name, max) => post(at(name, 'concurrency'), { max }),
  purge: (name, body) => post(at(name, 'purge'), body),
};
