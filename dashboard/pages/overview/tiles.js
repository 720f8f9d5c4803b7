// Number tiles of the overview. Those from the stream change every second, the others with the page.

import { html } from '../../lib/html.js';
import { useStream } from '../../lib/live.js';
import { to } from '../../lib/route.js';
import { messagesWith } from '../../lib/links.js';
import { duration } from '../../lib/time.js';
import { count, approximate, short } from '../../lib/number.js';
import { overview as text } from '../../texts.js';

const Tile = ({ label, value, note, href, tone = '', title }) => html`<a
  class="tile ${tone}"
  href=${href}
  title=${title}
>
  <span class="label">${label}</span>
  <span class="value">${value}</span>
  ${note ? html`<span class="note">${note}</span>` : null}
</a>`;

export function Tiles({ data }) {
  const { word, tick } = useStream();
  const live = word === 'live' && tick ? tick : {};
  const counts = { ...data.counts, ...live.counts };
  const rates = { ...data.rates, ...live.rates };
  const { tiles } = text;
  const about = (value) => approximate(short(value), { estimate: data.counts_estimate, count: value });
  const late = data.health.late_schedules ?? data.late.length;
  const oldest = data.oldest_due_ms ?? Math.max(0, ...data.problem_queues.map((queue) => queue.oldest_age_ms ?? 0));
  return html`<div class="tiles eight">
    <${Tile}
      label=${tiles.late}
      value=${late === 0 ? tiles.onTime : count(late)}
      tone=${late ? 'bad' : 'good'}
      href=${to(['jobs'], { sort: 'next' })}
    />
    <${Tile}
      label=${tiles.oldest}
      value=${oldest > 0 ? duration(oldest) : '–'}
      note=${oldest > 0 ? tiles.oldestNote : null}
      tone=${oldest > 60_000 ? 'warn' : ''}
      href=${to(['queues'])}
    />
    <${Tile}
      label=${tiles.pending}
      value=${about(counts.pending)}
      title=${count(counts.pending)}
      note=${counts.ready === undefined ? null : tiles.ready(short(counts.ready))}
      href=${messagesWith({ state: 'pending' })}
    />
    <${Tile} label=${tiles.running} value=${short(counts.running)} href=${messagesWith({ state: 'running' })} />
    <${Tile}
      label=${tiles.out}
      value=${tiles.rate(short(rates.out_per_s))}
      note=${tiles.in(short(rates.in_per_s))}
      href=${messagesWith({ state: 'done' })}
    />
    <${Tile}
      label=${tiles.failed}
      value=${tiles.rate(short(rates.failed_per_s))}
      tone=${rates.failed_per_s > 0 ? 'warn' : ''}
      href=${messagesWith({ phase: 'retrying' })}
    />
    <${Tile}
      label=${tiles.dead}
      value=${about(counts.dead)}
      title=${count(counts.dead)}
      tone=${counts.dead > 0 ? 'bad' : ''}
      href=${to(['dead'])}
    />
    <${Tile}
      label=${tiles.workers}
      value=${count(data.workers)}
      note=${data.workers ? null : tiles.noWorker}
      tone=${data.workers ? '' : 'bad'}
      href=${to(['workers'])}
    />
  </div>`;
}
