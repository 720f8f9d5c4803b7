// Job components shared by the list and the page of a job: lateness, flags, recent runs, policies, and actions.

import { html } from './html.js';
import { get, pathSegment, post } from './api.js';
import { duration, useTicking } from './time.js';
import { Badge, StateBadge, RunStrip, tone } from './ui.js';
import { jobs as text } from '../texts.js';

/** Short description of a schedule, without the zone and details that only its page shows. */
export const shortSchedule = ({ in_words: words, zone }) => {
  const first = words.split(';')[0].split(', counted from')[0];
  return zone && first.endsWith(`, ${zone}`) ? first.slice(0, -zone.length - 2) : first;
};

/** Delay in milliseconds after which a job counts as late; firing itself takes a moment. */
const GRACE = 5_000;

/** Lateness of a job in milliseconds; 0 when it is not late. */
export function lateBy(job, now = Date.now()) {
  if (job.phase !== 'active' || !job.next_at) return 0;
  const late = now - new Date(job.next_at);
  return late > GRACE ? late : 0;
}

/** State badge of a job, and a badge for each of its problems. */
export function Flags({ job }) {
  const late = useTicking(() => {
    const by = lateBy(job);
    return by ? duration(Math.floor(by / 1_000) * 1_000) : null;
  });
  const shown =
    job.word === 'broken' && job.broken
      ? []
      : [html`<${StateBadge} word=${job.word} title=${job.last?.note ?? job.last?.reason} />`];
  if (job.broken) shown.push(html`<${Badge} tone="bad" title=${job.broken}>${text.flags.broken}<//>`);
  if (job.misconfigured)
    shown.push(html`<${Badge} tone="bad" title=${job.misconfigured}>${text.flags.misconfigured}<//>`);
  if (late) shown.push(html`<${Badge} tone="bad" title=${job.next_at}>${text.flags.late(late)}<//>`);
  if (job.running > 0 && job.word !== 'running')
    shown.push(html`<${Badge} tone="busy">${text.flags.running(job.running)}<//>`);
  if (job.overridden?.length)
    shown.push(html`<${Badge} tone="idle" title=${job.overridden.join(', ')}>${text.flags.edited}<//>`);
  return html`<span class="flags">${shown}</span>`;
}

/** Latest runs as coloured cells, with a text for screen readers. */
export function RecentRuns({ job }) {
  const count = { good: 0, bad: 0, other: 0 };
  for (const run of job.recent) count[{ good: 'good', bad: 'bad' }[tone(run.ending)] ?? 'other'] += 1;
  const runs = job.recent.map((run) => ({
    ending: run.ending,
    title: `${run.ending.replaceAll('_', ' ')} · ${duration(run.took_ms)} · ${run.started_at}`,
  }));
  return html`<${RunStrip} runs=${runs} label=${text.strip(count.good, count.bad, count.other)} />`;
}

/** Badges of the overlap and misfire policies. */
export const Policies = ({ job }) => html`<span class="flags">
  <${Badge} title=${text.overlapWords[job.overlap.policy]}>${text.overlap[job.overlap.policy] ?? job.overlap.policy}<//>
  <${Badge} title=${text.misfireWords[job.misfire.policy]}>${text.misfire[job.misfire.policy] ?? job.misfire.policy}<//>
</span>`;

const at = (name, verb) => `/jobs/${pathSegment(name)}/${verb}`;

/** API calls of a job. */
export const jobActions = {
  load: (name, signal) => get(`/jobs/${pathSegment(name)}`, {}, { signal }),
  trigger: (name, body) => post(at(name, 'trigger'), body),
  pause: (name, body) => post(at(name, 'pause'), body),
  resume: (name) => post(at(name, 'resume')),
  skip: (name, nominal) => post(at(name, 'skip'), nominal ? { nominal } : {}),
  cursor: (name, to) => post(at(name, 'cursor'), { to }),
  reset: (name, field) => post(at(name, 'reset'), field ? { field } : {}),
  backfill: (name, body) => post(at(name, 'backfill'), body),
};
