// Overview page: health, late and failing jobs, queues, dead letters and charts.

import { html } from '../lib/html.js';
import { get } from '../lib/api.js';
import { useLoad } from '../lib/live.js';
import { refine } from '../lib/route.js';
import { RANGES } from '../lib/series.js';
import { duration, useTick } from '../lib/time.js';
import { short } from '../lib/number.js';
import { Choice } from '../lib/choice.js';
import { Head, Loaded } from '../lib/ui.js';
import { Panel } from './overview/panel.js';
import { Health } from './overview/health.js';
import { Tiles } from './overview/tiles.js';
import { SelectedRange } from './overview/selected_range.js';
import { Dead, Failing, Late, Marks, Next, Problems, Running, Welcome } from './overview/lists.js';
import { overview as text } from '../texts.js';

/** Age in milliseconds after which the page shows how old its data is; expensive data is loaded less often. */
const OLD_AFTER = 10_000;
const RATE = (value) => (value >= 1_000 ? short(value) : Math.round(value * 10) / 10);
const isEmpty = (data) =>
  data.next.length === 0 && data.running.length === 0 && Object.values(data.counts).every((count) => count === 0);

/** Stores the selected range in the address. */
function brush(from, to) {
  refine({ from: new Date(from * 1_000).toISOString(), to: new Date(to * 1_000).toISOString() });
}

function Charts({ shared }) {
  const { charts } = text;
  return html`
    <div class="grid half">
      <${Panel}
        name="wait"
        title=${charts.wait}
        note=${charts.waitNote}
        unit=${duration}
        heat
        height=${200}
        ...${shared}
      />
      <${Panel}
        name="run"
        title=${charts.run}
        note=${charts.runNote}
        unit=${duration}
        heat
        height=${200}
        ...${shared}
      />
    </div>
    <div class="grid thirds">
      <${Panel} name="queue_age" title=${charts.queue_age} unit=${duration} height=${150} ...${shared} />
      <${Panel} name="concurrency" title=${charts.concurrency} height=${150} ...${shared} />
      <${Panel} name="dead" title=${charts.dead} height=${150} ...${shared} />
    </div>
  `;
}

/** Notice with the age of the data when it is old. */
function ResponseAge({ at }) {
  useTick();
  const age = Date.now() - new Date(at);
  return age > OLD_AFTER
    ? html`<p class="notice warn" role="status">${text.old(duration(Math.floor(age / 1_000) * 1_000))}</p>`
    : null;
}

function Body({ data, query, range }) {
  const { charts } = text;
  const chosen = query.from && query.to ? [query.from, query.to] : null;
  const shared = { range, marks: data.marks, onBrush: brush, chosen };
  return html`
    <${ResponseAge} at=${data.at} />
    ${isEmpty(data) ? html`<${Welcome} tests=${data.handles_test} />` : null}
    ${data.failing.length > 0
      ? html`<${Failing} rows=${data.failing} count=${data.health.failing_count} more=${data.health.failing_more} />`
      : null}
    <${Tiles} data=${data} />
    <div class="grid two beside">
      <div class="stack">
        <${Panel}
          name="throughput"
          title=${charts.throughput}
          note=${charts.hint}
          unit=${RATE}
          stacked
          height=${230}
          ...${shared}
        />
        ${chosen ? html`<${SelectedRange} from=${query.from} to=${query.to} />` : null}
        <${Running} rows=${data.running} />
      </div>
      <div class="stack">
        <${Late} rows=${data.late} />
        <${Problems} rows=${data.problem_queues} />
        <${Next} rows=${data.next} />
      </div>
    </div>
    <${Charts} shared=${shared} />
    <div class="grid two"><${Dead} dead=${data.dead} /><${Marks} rows=${data.marks} /></div>
  `;
}

export function Overview({ route }) {
  const range = RANGES[route.query.range] ? route.query.range : '10m';
  const loaded = useLoad((signal) => get('/overview', {}, { signal }), 'overview', { poll: true, every: 2_000 });
  const choices = Object.entries(text.ranges).map(([id, label]) => ({ id, label }));
  return html`
    <${Head} title=${text.title} about=${text.about}>
      <${Choice}
        label=${text.range}
        choices=${choices}
        current=${range}
        onChoose=${(id) => refine({ range: id, from: null, to: null })}
      />
    <//>
    <${Health} />
    <${Loaded} of=${loaded} skeleton=${12}>
      ${(data) => html`<${Body} data=${data} query=${route.query} range=${range} />`}
    <//>
  `;
}
