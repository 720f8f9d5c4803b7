// A day: one lane per job, its runs as ticks coloured by how they ended, with now, pile-ups and clock changes.

import { html } from '../../lib/html.js';
import { jobPage } from '../../lib/links.js';
import { clock, useTick } from '../../lib/time.js';
import { hourOf } from '../../lib/zone.js';
import { tone } from '../../lib/ui.js';
import { calendar as text } from '../../texts.js';

const HOUR = 3_600_000;
const LANES_MAX = 80;
const MARKS_MAX = 60;
/** The drawing's own units; the browser stretches them to the width there is. */
const [WIDTH, HEIGHT] = [1_440, 18];
/** How near the pointer must be to a run, in hundredths of the day. */
const NEAR = 0.8;
const TONES = ['idle', 'mute', 'good', 'warn', 'bad'];

const toneOf = (run) => (run.kind === 'future' ? 'idle' : tone(run.ending));
const share = (at, { from, until }) => ((new Date(at) - from) / (until - from)) * 100;

/** The lanes, by name, so that nothing jumps. */
function lanes(runs) {
  const byJob = new Map();
  for (const run of runs) { if (!byJob.has(run.job)) byJob.set(run.job, []); byJob.get(run.job).push(run); }
  return [...byJob].sort(([one], [other]) => one.localeCompare(other));
}

/** One path per colour; runs that fall on the same spot are drawn once. */
function paths(runs, asked) {
  const spots = Object.fromEntries(TONES.map((name) => [name, new Set()]));
  for (const run of runs) spots[toneOf(run)]?.add(Math.round((share(run.at, asked) / 100) * WIDTH));
  return TONES.filter((name) => spots[name].size > 0).map((name) => html`<path key=${name} class="run ${name}" d=${[...spots[name]].map((x) => `M${x} 1V${HEIGHT - 1}`).join('')} />`);
}

/** The worst pile-ups; more marks than this are one grey wall. */
const worst = (piles) => [...piles].sort((one, other) => other.count - one.count).slice(0, MARKS_MAX);

function Hours({ asked, piles }) {
  const count = Math.round((asked.until - asked.from) / HOUR);
  return html`<div class="hours" aria-hidden="true">${Array.from({ length: count }, (_, at) => asked.from + at * HOUR).map((at, index) => html`<span key=${at} class=${index % 3 ? 'minor' : ''} style=${{ left: `${share(at, asked)}%` }}>${hourOf(at, asked.zone)}</span>`)}
    ${worst(piles).map((pile) => html`<i key=${pile.at} class="pile-mark" style=${{ left: `${share(pile.at, asked)}%` }} title=${`${clock(pile.at, asked.zone)}: ${text.piles.count(pile.count)}`}></i>`)}</div>`;
}

function Marks({ asked, piles, changes }) {
  useTick();
  const now = Date.now();
  const hours = Math.round((asked.until - asked.from) / HOUR);
  return html`<div class="overlay" aria-hidden="true">
    ${Array.from({ length: hours }, (_, at) => html`<i key=${at} class="grid-line" style=${{ left: `${(at / hours) * 100}%` }}></i>`)}
    ${worst(piles).map((pile) => html`<i key=${`pile${pile.at}`} class="pile" style=${{ left: `${share(pile.at, asked)}%` }}></i>`)}
    ${changes.map((change) => html`<i key=${`change${change.at}${change.zone}`} class="change" style=${{ left: `${share(change.at, asked)}%` }} title=${`${change.zone}: ${change.note}`}></i>`)}
    ${now >= asked.from && now < asked.until ? html`<i class="now" style=${{ left: `${share(now, asked)}%` }} title=${text.now}></i>` : null}
  </div>`;
}

/** The run nearest to the pointer, when one is near. */
function nearest(event, runs, asked) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * 100;
  let best = null;
  for (const run of runs) { const away = Math.abs(share(run.at, asked) - at); if (away < NEAR && (!best || away < best.away)) best = { run, away }; }
  return best?.run ?? null;
}

function Lane({ job, runs, asked }) {
  const [past, future] = ['past', 'future'].map((kind) => runs.filter((run) => run.kind === kind));
  const bad = past.filter((run) => tone(run.ending) === 'bad').length;
  const link = jobPage(job, { tab: 'timeline', from: new Date(asked.from).toISOString(), until: new Date(asked.until).toISOString() });
  const summary = text.lane(job, past.length, bad, future.length);
  const point = (event) => {
    const run = nearest(event, runs, asked);
    event.currentTarget.title = run ? `${clock(run.at, asked.zone)} · ${run.ending?.replaceAll('_', ' ') ?? text.legend.idle}` : summary;
  };
  return html`<li><a class="row name" href=${link} title=${job}>${job}</a>
    <a class="lane" href=${link} tabindex="-1" aria-label=${summary} title=${summary} onMouseMove=${point}>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${paths(runs, asked)}</svg></a></li>`;
}

export function Day({ runs, piles, changes, asked }) {
  const all = lanes(runs);
  return html`<div class="day">
    <div class="scale"><span></span><${Hours} asked=${asked} piles=${piles} /></div>
    <div class="lanes"><${Marks} asked=${asked} piles=${piles} changes=${changes} />
      <ul aria-label=${text.lanes}>${all.slice(0, LANES_MAX).map(([job, own]) => html`<${Lane} key=${job} job=${job} runs=${own} asked=${asked} />`)}</ul></div>
    ${all.length > LANES_MAX ? html`<p class="quiet-line">${text.lanesMore(all.length - LANES_MAX)}</p>` : null}
  </div>`;
}
