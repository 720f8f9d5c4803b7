// Day view: one lane per job with its runs as ticks coloured by outcome, and marks for now, pile-ups and clock changes.

import { html } from '../../lib/html.js';
import { jobPage } from '../../lib/links.js';
import { clock, useTick } from '../../lib/time.js';
import { hourOf } from '../../lib/zone.js';
import { tone } from '../../lib/ui.js';
import { calendar as text } from '../../texts.js';

const HOUR = 3_600_000;
const LANES_MAX = 80;
const MARKS_MAX = 60;
/** Width and height of the drawing in its own units; the browser stretches it. */
const [WIDTH, HEIGHT] = [1_440, 18];
/** Largest distance between pointer and run, in percent of the day. */
const NEAR = 0.8;
const TONES = ['idle', 'mute', 'good', 'warn', 'bad'];

const toneOf = (run) => (run.kind === 'future' ? 'idle' : tone(run.ending));
const share = (at, { from, until }) => ((new Date(at) - from) / (until - from)) * 100;

/** Lanes sorted by name, so that their order is stable. */
function lanes(runs) {
  const byJob = new Map();
  for (const run of runs) {
    if (!byJob.has(run.job)) byJob.set(run.job, []);
    byJob.get(run.job).push(run);
  }
  return [...byJob].sort(([one], [other]) => one.localeCompare(other));
}

/** Returns one path per colour; runs at the same position are drawn once. */
function paths(runs, range) {
  const spots = Object.fromEntries(TONES.map((name) => [name, new Set()]));
  for (const run of runs) spots[toneOf(run)]?.add(Math.round((share(run.at, range) / 100) * WIDTH));
  return TONES.filter((name) => spots[name].size > 0).map(
    (name) =>
      html`<path key=${name} class="run ${name}" d=${[...spots[name]].map((x) => `M${x} 1V${HEIGHT - 1}`).join('')} />`,
  );
}

/** The largest pile-ups; more marks would cover the lane. */
const worst = (piles) => [...piles].sort((one, other) => other.count - one.count).slice(0, MARKS_MAX);

function Hours({ range, piles }) {
  const count = Math.round((range.until - range.from) / HOUR);
  return html`<div class="hours" aria-hidden="true">
    ${Array.from({ length: count }, (_, at) => range.from + at * HOUR).map(
      (at, index) =>
        html`<span key=${at} class=${index % 3 ? 'minor' : ''} style=${{ left: `${share(at, range)}%` }}>
          ${hourOf(at, range.zone)}
        </span>`,
    )}
    ${worst(piles).map(
      (pile) =>
        html`<i
          key=${pile.at}
          class="pile-mark"
          style=${{ left: `${share(pile.at, range)}%` }}
          title=${`${clock(pile.at, range.zone)}: ${text.piles.count(pile.count)}`}
        ></i>`,
    )}
  </div>`;
}

function Marks({ range, piles, changes }) {
  useTick();
  const now = Date.now();
  const hours = Math.round((range.until - range.from) / HOUR);
  return html`<div class="overlay" aria-hidden="true">
    ${Array.from(
      { length: hours },
      (_, at) => html`<i key=${at} class="grid-line" style=${{ left: `${(at / hours) * 100}%` }}></i>`,
    )}
    ${worst(piles).map(
      (pile) => html`<i key=${`pile${pile.at}`} class="pile" style=${{ left: `${share(pile.at, range)}%` }}></i>`,
    )}
    ${changes.map(
      (change) =>
        html`<i
          key=${`change${change.at}${change.zone}`}
          class="change"
          style=${{ left: `${share(change.at, range)}%` }}
          title=${`${change.zone}: ${change.note}`}
        ></i>`,
    )}
    ${now >= range.from && now < range.until
      ? html`<i class="now" style=${{ left: `${share(now, range)}%` }} title=${text.now}></i>`
      : null}
  </div>`;
}

/** Returns the run next to the pointer, or null. */
function nearest(event, runs, range) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * 100;
  let best = null;
  for (const run of runs) {
    const away = Math.abs(share(run.at, range) - at);
    if (away < NEAR && (!best || away < best.away)) best = { run, away };
  }
  return best?.run ?? null;
}

function Lane({ job, runs, range }) {
  const [past, future] = ['past', 'future'].map((kind) => runs.filter((run) => run.kind === kind));
  const bad = past.filter((run) => tone(run.ending) === 'bad').length;
  const link = jobPage(job, {
    tab: 'timeline',
    from: new Date(range.from).toISOString(),
    until: new Date(range.until).toISOString(),
  });
  const summary = text.lane(job, past.length, bad, future.length);
  const point = (event) => {
    const run = nearest(event, runs, range);
    event.currentTarget.title = run
      ? `${clock(run.at, range.zone)} · ${run.ending?.replaceAll('_', ' ') ?? text.legend.idle}`
      : summary;
  };
  return html`<li>
    <a class="row name" href=${link} title=${job}>${job}</a>
    <a class="lane" href=${link} tabindex="-1" aria-label=${summary} title=${summary} onMouseMove=${point}>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${paths(runs, range)}</svg>
    </a>
  </li>`;
}

export function Day({ runs, piles, changes, range }) {
  const all = lanes(runs);
  return html`<div class="day">
    <div class="scale"><span></span><${Hours} range=${range} piles=${piles} /></div>
    <div class="lanes">
      <${Marks} range=${range} piles=${piles} changes=${changes} />
      <ul aria-label=${text.lanes}>
        ${all
          .slice(0, LANES_MAX)
          .map(([job, own]) => html`<${Lane} key=${job} job=${job} runs=${own} range=${range} />`)}
      </ul>
    </div>
    ${all.length > LANES_MAX ? html`<p class="quiet-line">${text.lanesMore(all.length - LANES_MAX)}</p>` : null}
  </div>`;
}
