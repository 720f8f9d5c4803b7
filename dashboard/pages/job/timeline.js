// Timeline tab: every time of a schedule with the decision and its reason. A line separates past and future.

import { html, useEffect } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { useHoverFreeze } from '../../lib/hover_freeze.js';
import { useLoad } from '../../lib/live.js';
import { refine } from '../../lib/route.js';
import { messagePage } from '../../lib/links.js';
import { clock, duration, relative, zone as viewerZone } from '../../lib/time.js';
import { Card, Empty, Loaded, StateBadge, tone } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.timeline;
const ON = [
  'job.fired',
  'job.misfired',
  'job.skipped',
  'job.changed',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
];
const LIMIT = 100;

const Cells = ({ times, onJump }) =>
  html`<div class="cells" role="img" aria-label=${`${text.cells}. ${summary(times)}`}>
    ${[...times]
      .reverse()
      .map(
        (time) => html`<i
          key=${time.nominal}
          class="cell ${tone(time.decision)} ${time.decision}"
          title=${`${clock(time.nominal)} · ` +
          `${text.decisions[time.decision] ?? time.decision}${time.reason ? ` · ${time.reason}` : ''}`}
          onClick=${() => onJump(time.nominal)}
        ></i>`,
      )}
  </div>`;

function counted(times) {
  const counts = {};
  for (const time of times) counts[time.decision] = (counts[time.decision] ?? 0) + 1;
  return counts;
}
const summary = (times) =>
  Object.entries(counted(times))
    .map(([decision, count]) => `${count} ${text.decisions[decision] ?? decision}`)
    .join(', ');

function Row({ time, zone }) {
  return html`<tr id=${`at-${time.nominal}`} class=${time.decision === 'planned' ? 'to-come' : ''}>
    <td data-label=${text.columns.nominal}>
      <span class="num" title=${relative(time.nominal)}>
        ${clock(time.nominal)}
        ${zone && zone !== viewerZone
          ? html` <span class="faint" title=${zone}>· ${clock(time.nominal, zone, { seconds: false })}</span>`
          : null}
      </span>
    </td>
    <td data-label=${text.columns.decision}><${StateBadge} word=${time.decision} /></td>
    <td data-label=${text.columns.reason}>
      ${time.reason ? html`<span class="soft">${time.reason.replaceAll('_', ' ')}</span>` : null}
    </td>
    <td data-label=${text.columns.late} class="right num">
      ${time.late_ms === null || time.late_ms === undefined ? null : duration(time.late_ms)}
    </td>
    <td data-label=${text.columns.attempts} class="right num">${time.attempts || null}</td>
    <td data-label=${text.columns.message} class="right">
      ${time.message ? html`<a href=${messagePage(time.message)}>${text.show}</a>` : null}
    </td>
  </tr>`;
}

const Now = () => html`<tr class="now-line"><td colspan="6"><span>${text.now}</span></td></tr>`;

/** Number of future times shown at first. */
const NEAR = 4;

/** Rows, newest first, with a line between past and future. */
function Rows({ times: given, zone, isWide }) {
  const [times, hold] = useHoverFreeze(given);
  const now = Date.now();
  const border = times.findIndex((time) => new Date(time.nominal) <= now);
  const hidden = isWide || border < 0 ? 0 : Math.max(0, border - NEAR);
  return html`
    ${hidden > 1
      ? html`<button class="quiet fresh" onClick=${() => refine({ ahead: '1' })}>${text.ahead(hidden)}</button>`
      : null}
    <div class="table" ...${hold}>
      <table class="ledger">
        <thead>
          <tr>
            ${Object.entries(text.columns).map(
              ([id, label]) =>
                html`<th key=${id} class=${['late', 'attempts', 'message'].includes(id) ? 'right' : ''}>${label}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${times.map((time, at) =>
            at < hidden && hidden > 1
              ? null
              : html`
                  ${at === border && at > 0 ? html`<${Now} key="now" />` : null}
                  <${Row} key=${time.nominal} time=${time} zone=${zone} />
                `,
          )}
        </tbody>
      </table>
    </div>
  `;
}

function Steps({ times, query }) {
  const [newest, oldest] = [times[0], times[times.length - 1]].map((time) => new Date(time.nominal).getTime());
  const span = Math.max(60_000, newest - oldest);
  const step = (from, to) => refine({ from: new Date(from).toISOString(), until: new Date(to).toISOString() }, {});
  return html`
    <button class="small" onClick=${() => step(oldest - span, oldest)}>← ${text.older}</button>
    ${query.from
      ? html`<button class="small" onClick=${() => refine({ from: null, until: null }, {})}>${text.today}</button>`
      : null}
    <button class="small" onClick=${() => step(newest, newest + span)}>${text.newer} →</button>
  `;
}

function Filter({ counts, current }) {
  return html`<label class="inline">
    <span class="visually-hidden">${text.filter}</span>
    <select value=${current ?? ''} onChange=${(event) => refine({ decision: event.target.value })}>
      <option value="">${text.all}</option>
      ${Object.entries(counts).map(
        ([decision, count]) =>
          html`<option key=${decision} value=${decision}>${text.decisions[decision] ?? decision} (${count})</option>`,
      )}
    </select>
  </label>`;
}

export function Timeline({ job, query }) {
  const { from, until: to, decision } = query;
  const loaded = useLoad(
    (signal) => get(`/jobs/${pathSegment(job.name)}/occurrences`, { from, to, limit: LIMIT }, { signal }),
    `${job.name} ${from} ${to}`,
    { on: ON, every: 2_000 },
  );
  useEffect(() => {
    if (query.at) document.getElementById(`at-${query.at}`)?.scrollIntoView({ block: 'center' });
  }, [Boolean(loaded.data), query.at]);
  const jump = (nominal) => document.getElementById(`at-${nominal}`)?.scrollIntoView({ block: 'center' });
  const view = (data) => {
    const times = [...data.items].sort((one, other) => new Date(other.nominal) - new Date(one.nominal));
    if (times.length === 0)
      return html`<${Empty} title=${text.none}>
        ${from ? html`<button onClick=${() => refine({ from: null, until: null })}>${text.today}</button>` : null}
      <//>`;
    const shown = decision ? times.filter((time) => time.decision === decision) : times;
    return html`
      <div class="bar">
        <${Filter} counts=${counted(times)} current=${decision} />
        <span class="spring"></span>
        <${Steps} times=${times} query=${query} />
      </div>
      <${Cells} times=${times} onJump=${jump} />
      <${Rows} key=${`${from} ${decision}`} times=${shown} zone=${job.zone} isWide=${Boolean(query.ahead || from)} />
    `;
  };
  return html`<${Card} title=${text.title} flush><${Loaded} of=${loaded} skeleton=${10}>${view}<//><//>`;
}
