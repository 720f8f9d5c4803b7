// What is said about a job in more than one place: whether it is late, what is wrong with it, its policies, and
// the actions a row and a page share.

import { html } from './html.js';
import { get, part, post } from './api.js';
import { length, useTicking } from './time.js';
import { Badge, State, Strip, tone } from './ui.js';
import { jobs as text } from '../texts.js';

/** A schedule in words, without what stands beside it or matters only on its page. */
export const gist = ({ in_words: words, zone }) => { const first = words.split(';')[0].split(', counted from')[0]; return zone && first.endsWith(`, ${zone}`) ? first.slice(0, -zone.length - 2) : first; };

/** Firing takes a moment; only after this long is a job late. */
const GRACE = 5_000;

/** How late a job is in milliseconds; 0 when it is not. */
export function lateBy(job, now = Date.now()) {
  if (job.phase !== 'active' || !job.next_at) return 0;
  const late = now - new Date(job.next_at);
  return late > GRACE ? late : 0;
}

/** The state of a job and everything that is wrong with it. */
export function Flags({ job }) {
  const late = useTicking(() => { const by = lateBy(job); return by ? length(Math.floor(by / 1_000) * 1_000) : null; });
  const shown = job.word === 'broken' && job.broken ? [] : [html`<${State} word=${job.word} title=${job.last?.note ?? job.last?.reason} />`];
  if (job.broken) shown.push(html`<${Badge} tone="bad" title=${job.broken}>${text.flags.broken}<//>`);
  if (job.misconfigured) shown.push(html`<${Badge} tone="bad" title=${job.misconfigured}>${text.flags.misconfigured}<//>`);
  if (late) shown.push(html`<${Badge} tone="bad" title=${job.next_at}>${text.flags.late(late)}<//>`);
  if (job.running > 0 && job.word !== 'running') shown.push(html`<${Badge} tone="busy">${text.flags.running(job.running)}<//>`);
  if (job.overridden?.length) shown.push(html`<${Badge} tone="idle" title=${job.overridden.join(', ')}>${text.flags.edited}<//>`);
  return html`<span class="flags">${shown}</span>`;
}

/** The last runs as cells, said in words for those who cannot see them. */
export function Recent({ job }) {
  const count = { good: 0, bad: 0, other: 0 };
  for (const run of job.recent) count[{ good: 'good', bad: 'bad' }[tone(run.ending)] ?? 'other'] += 1;
  const runs = job.recent.map((run) => ({ ending: run.ending, title: `${run.ending.replaceAll('_', ' ')} · ${length(run.took_ms)} · ${run.started_at}` }));
  return html`<${Strip} runs=${runs} label=${text.strip(count.good, count.bad, count.other)} />`;
}

/** The policies in a word each. */
export const Policies = ({ job }) => html`<span class="flags">
  <${Badge} title=${text.overlapWords[job.overlap.policy]}>${text.overlap[job.overlap.policy] ?? job.overlap.policy}<//>
  <${Badge} title=${text.misfireWords[job.misfire.policy]}>${text.misfire[job.misfire.policy] ?? job.misfire.policy}<//></span>`;

const at = (name, verb) => `/jobs/${part(name)}/${verb}`;

/** What can be done to a job. */
export const does = {
  load: (name, signal) => get(`/jobs/${part(name)}`, {}, { signal }),
  trigger: (name, body) => post(at(name, 'trigger'), body),
  pause: (name, body) => post(at(name, 'pause'), body),
  resume: (name) => post(at(name, 'resume')),
  skip: (name, nominal) => post(at(name, 'skip'), nominal ? { nominal } : {}),
  cursor: (name, to) => post(at(name, 'cursor'), { to }),
  reset: (name, field) => post(at(name, 'reset'), field ? { field } : {}),
  backfill: (name, body) => post(at(name, 'backfill'), body),
};
