// Week view: a cell per day and hour, darker for more runs, red when some failed. A cell links to its day.

import { html } from '../../lib/html.js';
import { to } from '../../lib/route.js';
import { addDays, dayName, dayOf, hourOf } from '../../lib/zone.js';
import { short } from '../../lib/number.js';
import { tone } from '../../lib/ui.js';
import { zone as viewerZone } from '../../lib/time.js';
import { calendar as text } from '../../texts.js';

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));
const STEPS = 5;

/** Counts runs and failures by day and hour. */
function countsByHour(runs, zone) {
  const cells = new Map();
  for (const run of runs) {
    const at = new Date(run.at).getTime();
    const key = `${dayOf(at, zone)} ${hourOf(at, zone)}`;
    const cell = cells.get(key) ?? { count: 0, bad: 0 };
    cell.count += 1;
    if (run.kind === 'past' && tone(run.ending) === 'bad') cell.bad += 1;
    cells.set(key, cell);
  }
  return cells;
}

const dayPage = (day, range) =>
  to(['calendar'], { date: day, zone: range.zone === viewerZone ? null : range.zone, job: range.job });

function Cell({ day, hour, cell, top, range, isPile, isNow }) {
  if (!cell) return html`<td class=${isNow ? 'now' : ''}></td>`;
  const level = Math.ceil((cell.count / top) * STEPS);
  const link = dayPage(day, range);
  const label = text.cell(dayName(day), hour, cell.count, cell.bad);
  return html`<td class=${isNow ? 'now' : ''}>
    <a
      class="slot level-${level} ${cell.bad ? 'bad' : ''} ${isPile ? 'pile' : ''}"
      href=${link}
      title=${label}
      aria-label=${label}
    >
      ${short(cell.count)}
    </a>
  </td>`;
}

export function Week({ runs, piles, changes, range }) {
  const days = Array.from({ length: 7 }, (_, at) => addDays(range.first, at));
  const cells = countsByHour(runs, range.zone);
  const top = Math.max(1, ...[...cells.values()].map((cell) => cell.count));
  const hourKey = (at) => `${dayOf(new Date(at).getTime(), range.zone)} ${hourOf(new Date(at).getTime(), range.zone)}`;
  const piled = new Set(piles.map((pile) => hourKey(pile.at)));
  const now = hourKey(Date.now());
  const changed = new Map(changes.map((change) => [dayOf(new Date(change.at).getTime(), range.zone), change]));
  return html`<div class="week">
    <table aria-label=${text.weekLabel}>
      <thead>
        <tr>
          <th scope="col"><span class="visually-hidden">${text.hour}</span></th>
          ${days.map(
            (day) =>
              html`<th key=${day} scope="col">
                <a href=${dayPage(day, range)}>
                  <span>${dayName(day, 'short').split(' ')[0]}</span> <span class="date">
                    ${dayName(day, 'short').split(' ').slice(1).join(' ')}
                  </span>
                </a>
                ${changed.has(day)
                  ? html` <span class="flag" title=${`${changed.get(day).zone}: ${changed.get(day).note}`}>⚑</span>`
                  : null}
              </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${HOURS.map(
          (hour) =>
            html`<tr key=${hour}>
              <th scope="row" class="num">${hour}</th>
              ${days.map(
                (day) =>
                  html`<${Cell}
                    key=${day}
                    day=${day}
                    hour=${hour}
                    cell=${cells.get(`${day} ${hour}`)}
                    top=${top}
                    range=${range}
                    isPile=${piled.has(`${day} ${hour}`)}
                    isNow=${`${day} ${hour}` === now}
                  />`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
