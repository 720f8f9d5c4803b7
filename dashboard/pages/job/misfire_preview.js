// Misfire preview: what would run after an outage of the scheduler of a given length that starts now.

import { html } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { refine } from '../../lib/route.js';
import { Choice } from '../../lib/choice.js';
import { clock, duration, When } from '../../lib/time.js';
import { count } from '../../lib/number.js';
import { Badge, Card, Loaded } from '../../lib/ui.js';
import { job as texts, jobs } from '../../texts.js';

const text = texts.misfire;
const DURATIONS = ['10m', '1h', '2h', '8h', '1d', '7d'];
const SHOWN = 20;

function Times({ title, tone, times, remark }) {
  return html`<div>
    <h3>${title} <${Badge} tone=${tone}>${count(times.length)}<//></h3>
    ${times.length === 0
      ? html`<p class="faint">${text.none}</p>`
      : html`<ul class="times">
          ${times
            .slice(0, SHOWN)
            .map(
              (time) =>
                html`<li key=${time.nominal}><span class="num">${clock(time.nominal)}</span> ${remark(time)}</li>`,
            )}
        </ul>`}
    ${times.length > SHOWN ? html`<p class="faint">${text.and(times.length - SHOWN)}</p>` : null}
  </div>`;
}

const ran = (time) =>
  time.makes_up === undefined ? null : html`<span class="faint">${time.makes_up ? text.makesUp : text.lateOnly}</span>`;
const skipped = (time) =>
  html`<span class="faint">
    ${time.count > 1 ? `${text.times(count(time.count))} · ` : ''}
    ${time.reason.replaceAll('_', ' ')}
  </span>`;

function Outcome({ found }) {
  return html`
    <p class="words">${found.in_words}</p>
    <p class="soft">
      <span class="num">${clock(found.down_from)}</span> – <span class="num">${clock(found.down_to)}</span> · <strong>
        ${count(found.missed)}
        ${found.missed_more ? '+' : ''}
      </strong> ${text.missed}
      ${found.next_at ? html` · ${text.next} <${When} at=${found.next_at} />` : null}
    </p>
    <div class="grid half">
      <${Times} title=${text.runs} tone="good" times=${found.runs} remark=${ran} />
      <${Times} title=${text.skipped} tone="mute" times=${found.skipped} remark=${skipped} />
    </div>
  `;
}

export function Outage({ job, query }) {
  const down = query.down ?? '2h';
  const loaded = useLoad(
    (signal) => get(`/jobs/${pathSegment(job.name)}/misfire-preview`, { down }, { signal }),
    `${job.name} ${down} ${job.misfire.policy} ${job.schedule}`,
  );
  const own = (event) => {
    event.preventDefault();
    const value = new FormData(event.target).get('down').trim();
    if (value) refine({ down: value });
  };
  const wrong =
    loaded.error && loaded.key === `${job.name} ${down} ${job.misfire.policy} ${job.schedule}`
      ? loaded.error.message
      : null;
  return html`<${Card} title=${text.title}>
    <form class="inline gap-below" onSubmit=${own}>
      <${Choice}
        label=${text.title}
        choices=${DURATIONS.map((id) => ({ id, label: id }))}
        current=${down}
        onChoose=${(id) => refine({ down: id })}
      />
      <input
        name="down"
        class="short"
        aria-label=${text.own}
        placeholder=${text.own}
        value=${DURATIONS.includes(down) ? '' : down}
      />
    </form>
    <p class="soft">
      ${jobs.misfireWords[job.misfire.policy] ?? job.misfire.policy} ${texts.facts.missedAfter(
        duration(job.misfire.threshold_ms),
        texts.facts.thresholds[job.misfire.threshold_from] ?? job.misfire.threshold_from,
      )}
    </p>
    ${wrong
      ? html`<p class="notice bad" role="alert">${wrong}</p>`
      : html`<${Loaded} of=${loaded}>${(found) => html`<${Outcome} found=${found} />`}<//>`}
  <//>`;
}
