// Calendar page: past and future runs of all jobs, by day or by week, in a selectable zone.

import { html } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/live.js';
import { refine, to } from '../lib/route.js';
import { Choice } from '../lib/choice.js';
import { zone as viewerZone } from '../lib/time.js';
import { addDays, dayName, dayOf, isDay, isZone, mondayOf, startOf } from '../lib/zone.js';
import { count } from '../lib/number.js';
import { Card, Empty, Head, Loaded } from '../lib/ui.js';
import { Day } from './calendar/day.js';
import { Week } from './calendar/week.js';
import { Changes, Piles } from './calendar/notes.js';
import { calendar as text } from '../texts.js';

const LIMIT = 10_000;
const ON = [
  'job.declared',
  'job.fired',
  'job.skipped',
  'job.changed',
  'job.retired',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
];

/** Range, view and zone from the address, with defaults. */
function rangeOf(query) {
  const zone = isZone(query.zone) ? query.zone : viewerZone;
  const view = query.view === 'week' ? 'week' : 'day';
  const date = isDay(query.date) ? query.date : dayOf(Date.now(), zone);
  const first = view === 'week' ? mondayOf(date) : date;
  const days = view === 'week' ? 7 : 1;
  return {
    zone,
    view,
    date,
    first,
    days,
    from: startOf(first, zone),
    until: startOf(addDays(first, days), zone),
    job: query.job ?? '',
  };
}

function Zone({ zone, usedZones }) {
  const known = [...new Set([viewerZone, 'UTC', ...usedZones, zone])];
  return html`<select
    aria-label=${text.zone}
    value=${zone}
    onChange=${(event) => refine({ zone: event.target.value === viewerZone ? null : event.target.value })}
  >
    ${known.map(
      (name) => html`<option key=${name} value=${name}>${name === viewerZone ? text.yours(name) : name}</option>`,
    )}
  </select>`;
}

function Tools({ range, usedZones }) {
  const step = (days) => () => refine({ date: addDays(range.date, days) }, {});
  return html`<div class="filters calendar-tools">
    <div class="inline">
      <button onClick=${step(-range.days)} aria-label=${text.before}>←</button>
      <button onClick=${() => refine({ date: null }, {})}>${text.today}</button>
      <button onClick=${step(range.days)} aria-label=${text.after}>→</button>
      <input
        type="date"
        aria-label=${text.date}
        value=${range.date}
        onChange=${(event) => {
          if (isDay(event.target.value)) refine({ date: event.target.value }, {});
        }}
      />
    </div>
    <input
      type="search"
      aria-label=${text.job}
      placeholder=${text.job}
      value=${range.job}
      onChange=${(event) => refine({ job: event.target.value })}
    />
    <${Zone} zone=${range.zone} usedZones=${usedZones} />
  </div>`;
}

const Legend = ({ view }) =>
  html`<ul class="legend">
    ${Object.entries(text.legend)
      .filter(([id]) => view === 'day' || ['bad', 'pile', 'change'].includes(id))
      .map(([id, label]) => html`<li key=${id}><i class="swatch ${id}"></i>${label}</li>`)}
  </ul>`;

function Body({ data, range }) {
  const runs = data.items.filter(
    (run) =>
      run.job.toLowerCase().includes(range.job.toLowerCase()) &&
      new Date(run.at) >= range.from &&
      new Date(run.at) < range.until,
  );
  const inside = (list) => list.filter((one) => new Date(one.at) >= range.from && new Date(one.at) < range.until);
  const [piles, changes] = [inside(data.minutes), inside(data.transitions)];
  const View = range.view === 'week' ? Week : Day;
  const title =
    range.view === 'week'
      ? `${dayName(range.first, 'short')} – ${dayName(addDays(range.first, 6), 'short')}`
      : dayName(range.date);
  return html`
    ${data.more ? html`<p class="notice warn">${text.more(count(data.items.length))}</p>` : null}
    <${Card}
      title=${title}
      note=${text.runs(count(runs.length))}
      actions=${html`<${Legend} view=${range.view} />`}
      flush
    >
      ${runs.length === 0
        ? data.more
          ? html`<${Empty} title=${text.noneShown} />`
          : html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`
        : html`<${View} runs=${runs} piles=${piles} changes=${changes} range=${range} />`}
    <//>
    <div class="grid half">
      <${Piles} piles=${piles} runs=${runs} zone=${range.zone} more=${data.more} />
      <${Changes} changes=${changes} />
    </div>
  `;
}

export function Calendar({ route: { query } }) {
  const range = rangeOf(query);
  const key = `${range.from} ${range.until}`;
  const load = (signal) =>
    get(
      '/calendar',
      { from: new Date(range.from).toISOString(), to: new Date(range.until).toISOString(), limit: LIMIT },
      { signal },
    );
  const loaded = useLoad(load, key, { on: ON, every: 5_000 });
  const usedZones = loaded.data?.transitions.map((change) => change.zone) ?? [];
  return html`
    <${Head} title=${text.title} about=${text.about}>
      <${Choice}
        label=${text.view}
        choices=${Object.entries(text.views).map(([id, label]) => ({ id, label }))}
        current=${range.view}
        onChoose=${(view) => refine({ view: view === 'day' ? null : view }, {})}
      />
    <//>
    <${Tools} range=${range} usedZones=${usedZones} />
    <${Loaded} of=${loaded} skeleton=${12}>${(data) => html`<${Body} data=${data} range=${range} />`}<//>
  `;
}
