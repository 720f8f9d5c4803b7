// Calendar notes: minutes in which many jobs start, and clock changes.

import { html } from '../../lib/html.js';
import { jobPage } from '../../lib/links.js';
import { Ago, clock } from '../../lib/time.js';
import { Badge, Card } from '../../lib/ui.js';
import { calendar as text } from '../../texts.js';

const MINUTE = 60_000;
const [PILES_SHOWN, JOBS_SHOWN] = [10, 6];

/** Returns the names of the jobs that start in each minute. */
function jobsByMinute(runs) {
  const byMinute = new Map();
  for (const run of runs) {
    const minute = Math.floor(new Date(run.at) / MINUTE);
    if (!byMinute.has(minute)) byMinute.set(minute, new Set());
    byMinute.get(minute).add(run.job);
  }
  return byMinute;
}

/** Groups pile-ups of the same jobs, largest first: one that repeats every minute is shown once. */
export function groupPiles(piles, runs) {
  const found = new Map();
  const byMinute = jobsByMinute(runs);
  for (const pile of piles) {
    const names = [...(byMinute.get(Math.floor(new Date(pile.at) / MINUTE)) ?? [])];
    const key = [...names].sort().join('\n') || pile.at;
    const before = found.get(key) ?? { names, first: pile.at, last: pile.at, minutes: 0, most: 0 };
    const [first, last] = [
      pile.at < before.first ? pile.at : before.first,
      pile.at > before.last ? pile.at : before.last,
    ];
    found.set(key, { names, first, last, minutes: before.minutes + 1, most: Math.max(before.most, pile.count) });
  }
  return [...found.values()].sort((one, other) => other.most - one.most || other.minutes - one.minutes);
}

function Pile({ pile: { names, first, last, minutes, most }, zone }) {
  const at = (instant) => clock(instant, zone, { seconds: false });
  return html`<li>
    <div class="what">
      <span class="num">${minutes === 1 ? at(first) : text.piles.range(at(first), at(last), minutes)}</span>
      <span class="faint">
        ${names
          .slice(0, JOBS_SHOWN)
          .map((name, index) => html`${index ? ', ' : ''}<a key=${name} href=${jobPage(name)}>${name}</a>`)}
        ${names.length > JOBS_SHOWN ? ` +${names.length - JOBS_SHOWN}` : ''}
      </span>
    </div>
    <div class="value"><${Badge} tone="warn">${minutes === 1 ? text.piles.count(most) : text.piles.upTo(most)}<//></div>
  </li>`;
}

export function Piles({ piles, runs, zone, more }) {
  const worst = groupPiles(piles, runs).slice(0, PILES_SHOWN);
  return html`<${Card} title=${text.piles.title} note=${piles.length ? text.piles.about : null} flush>
    ${worst.length === 0
      ? html`<p class="quiet-line">${more ? text.piles.noneShown : text.piles.none}</p>`
      : html`<ul class="rows">
          ${worst.map((pile) => html`<${Pile} key=${pile.first} pile=${pile} zone=${zone} />`)}
        </ul>`}
  <//>`;
}

export const Changes = ({ changes }) => html`<${Card} title=${text.changes.title} flush>
  ${changes.length === 0
    ? html`<p class="quiet-line">${text.changes.none}</p>`
    : html`<ul class="rows">
        ${changes.map(
          (change) => html`<li key=${change.zone + change.at}>
            <div class="what"><span>${change.zone}</span> <span class="faint">${change.note}</span></div>
            <div class="value">
              <span class="num">${clock(change.at, change.zone, { seconds: false })}</span> <${Ago} at=${change.at} />
            </div>
          </li>`,
        )}
      </ul>`}
<//>`;
