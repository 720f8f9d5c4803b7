// Why box of a job: the most important reason why it does or does not run, and what to do about it.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { to } from '../../lib/route.js';
import { messagePage } from '../../lib/links.js';
import { lateBy } from '../../lib/job.js';
import { Ago, duration, When } from '../../lib/time.js';
import { tone } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.why;

/** Number of latest consecutive runs that failed. */
const failing = (recent) => {
  const good = [...recent].reverse().findIndex((run) => tone(run.ending) !== 'bad');
  return good < 0 ? recent.length : good;
};

const Next = ({ job }) =>
  job.next_at
    ? html`${text.next}: <${Ago} at=${job.next_at} zone=${job.zone} />, <${When} at=${job.next_at} zone=${job.zone} />.`
    : text.noNext;

/** Returns the reason that blocks a job, or null: [tone, sentence, details]. */
function blockingReason(job) {
  if (job.broken) return ['bad', text.broken, job.broken];
  if (job.misconfigured) return ['bad', text.misconfigured, job.misconfigured];
  if (job.phase === 'retired')
    return ['mute', job.retired === 'finished' ? text.retiredFinished : text.retiredRemoved, null];
  if (job.paused)
    return [
      'warn',
      html`${text.paused(job.paused.by)} <q>${job.paused.reason}</q>`,
      html`
        <${Ago} at=${job.paused.at} /> · ${job.paused.until
          ? html`${text.until} <${Ago} at=${job.paused.until} />.`
          : text.forever}
      `,
    ];
  const late = lateBy(job);
  if (late)
    return ['bad', text.late(duration(late)), html`${text.lateHint} <a href=${to(['workers'])}>${text.workers}</a>`];
  return null;
}

function Waiting({ id }) {
  const message = useLoad((signal) => get(`/messages/${id}`, {}, { signal }), id, {
    on: ['attempt.started', 'attempt.failed', 'queue.changed'],
    every: 2_000,
  }).data;
  if (!message?.why) return null;
  return html`<p class="line">
    <strong>${text.waiting}:</strong> ${message.why.sentence} <a href=${messagePage(id)}>${text.message}</a>
  </p>`;
}

/** Delay in milliseconds after which a due run is shown as waiting. */
const WAITS_AFTER = 5_000;

/** Loads a due message of the job that does not run; its own page has the reason. */
function useWaiting(name) {
  const found = useLoad((signal) => get('/messages', { job: name, state: 'pending', limit: 5 }, { signal }), name, {
    on: ['job.fired', 'attempt.started', 'attempt.failed'],
    every: 2_000,
    poll: true,
  }).data;
  return (
    found?.items.find((message) => message.job === name && ['ready', 'retrying', 'stale'].includes(message.phase)) ??
    null
  );
}

/** Whether the message waits long enough to be the headline. */
const isDelayed = (message) =>
  message !== null && message.phase !== 'retrying' && Date.now() - new Date(message.due_at) > WAITS_AFTER;

export function Why({ job }) {
  const found = blockingReason(job);
  const failures = failing(job.recent);
  const waiting = useWaiting(job.name);
  const [kind, sentence, details] =
    found ??
    (isDelayed(waiting)
      ? ['warn', text.waits, null]
      : failures > 0
        ? ['warn', text.failing(failures), null]
        : job.running
          ? ['busy', text.running(job.running), null]
          : job.never_run
            ? ['mute', text.never, null]
            : ['good', text.good, null]);
  const error = failures > 0 && job.last?.note ? job.last.note : null;
  return html`<section class="why ${kind}" aria-label=${typeof sentence === 'string' ? sentence : text.paused('')}>
    <p class="sentence">${sentence}</p>
    ${details ? html`<p class="line">${details}</p>` : null}
    ${found && job.running ? html`<p class="line">${text.running(job.running)}</p>` : null}
    ${error
      ? html`<p class="line">
          ${text.lastError}: <code>${error}</code>
          ${job.last.message ? html` <a href=${messagePage(job.last.message)}>${text.message}</a>` : null}
        </p>`
      : null}
    ${waiting ? html`<${Waiting} id=${waiting.id} />` : null}
    ${job.phase === 'active' && !lateBy(job) ? html`<p class="line"><${Next} job=${job} /></p>` : null}
  </section>`;
}
