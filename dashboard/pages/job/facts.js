// Job facts: the settings of a job as names and values.

import { html } from '../../lib/html.js';
import { queuePage } from '../../lib/links.js';
import { to } from '../../lib/route.js';
import { Ago, duration, When } from '../../lib/time.js';
import { count } from '../../lib/number.js';
import { Facts } from '../../lib/ui.js';
import { RecentRuns } from '../../lib/job.js';
import { job as texts, jobs } from '../../texts.js';

const text = texts.facts;

function retry({ attempts_max: most, backoff, kind, waits_ms: waits, first_ms: first, cap_ms: cap }) {
  const times = most === null || most === undefined ? text.unlimited : text.attempts(most);
  const how = waits?.length
    ? waits.map(duration).join(', ')
    : first
      ? `${duration(first)} … ${duration(cap)}`
      : (backoff ?? kind ?? '');
  return most === 1 ? times : `${times}, ${how}`;
}

export function JobFacts({ job }) {
  return html`<${Facts}
    rows=${[
      [text.schedule, html`${job.in_words}${job.zone ? html` <span class="faint">${job.zone}</span>` : null}`],
      [text.expression, html`<code>${job.schedule}</code>`],
      [text.next, html`<${Ago} at=${job.next_at} zone=${job.zone} />`],
      [text.last, html`<${RecentRuns} job=${job} />`],
      [
        text.overlap,
        html`<span title=${jobs.overlapWords[job.overlap.policy]}>
          ${jobs.overlapWords[job.overlap.policy] ?? job.overlap.policy}
        </span>`,
      ],
      [
        text.misfire,
        html`
          ${jobs.misfireWords[job.misfire.policy] ?? job.misfire.policy} <span class="faint">
            ${text.missedAfter(
              duration(job.misfire.threshold_ms),
              text.thresholds[job.misfire.threshold_from] ?? job.misfire.threshold_from,
            )}
          </span>
        `,
      ],
      [text.retry, retry(job.retry)],
      job.when_interrupted === 'lost' ? [text.interrupted, text.notAgain] : null,
      [text.timeout, job.timeout_ms ? duration(job.timeout_ms) : text.none],
      [
        text.queue,
        html`
          <a href=${queuePage(job.queue)}>${job.queue}</a> <span class="faint">${text.priority} ${job.priority}</span>
        `,
      ],
      job.jitter ? [text.jitter, job.jitter] : null,
      job.expires_after_ms ? [text.expires, duration(job.expires_after_ms)] : null,
      job.concurrency ? [text.concurrency, count(job.concurrency)] : null,
      job.rate ? [text.rate, job.rate] : null,
      [text.cursor, html`<${When} at=${job.cursor} />`],
      [text.runs, count(job.runs)],
      [
        text.source,
        html`
          ${text.sources[job.source] ?? job.source} ${job.source === 'file'
            ? null
            : html`<span class="faint">${job.app}</span>`}
        `,
      ],
      job.tags.length
        ? [text.tags, job.tags.map((tag) => html`<a key=${tag} href=${to(['jobs'], { tag })}>#${tag}</a> `)]
        : null,
      [text.updated, html`<${Ago} at=${job.updated_at} />`],
    ]}
  />`;
}
