// Attempts of a message: how long each waited and ran, its note, and the difference to the previous one.

import { html } from '../../lib/html.js';
import { diffWords } from '../../lib/difference.js';
import { shortId } from '../../lib/copy.js';
import { Ago, When, duration } from '../../lib/time.js';
import { Badge, Card, StateBadge, tone } from '../../lib/ui.js';
import { message } from '../../texts.js';

const text = message.attempts;
/** Smallest width of a bar in percent, so that it stays visible. */
const WIDTH_MIN = 0.6;
const SHOWN_MAX = 100;

/** Returns start and width of the bars of an attempt, in percent of the whole time span. */
function measure(execution, [from, to]) {
  const share = (instant) => ((new Date(instant) - from) / Math.max(1, to - from)) * 100;
  const [due, started, ended] = [execution.due_at, execution.started_at, execution.ended_at].map((at) =>
    Math.min(100 - WIDTH_MIN, Math.max(0, share(at))),
  );
  return { due, wait: Math.max(0, started - due), started, run: Math.max(WIDTH_MIN, ended - started) };
}

const Bars = ({ execution, span }) => {
  const { due, wait, started, run } = measure(execution, span);
  return html`<div
    class="bars"
    role="img"
    aria-label=${text.bars(duration(execution.waited_ms), duration(execution.took_ms))}
  >
    <i class="wait" style=${{ left: `${due}%`, width: `${wait}%` }}></i>
    <i class="run ${tone(execution.ending)}" style=${{ left: `${started}%`, width: `${run}%` }}></i>
  </div>`;
};

/** Note of an attempt, with marks where it differs from the previous one. */
function Note({ execution, before }) {
  if (!execution.note) return null;
  if (!before?.note) return html`<pre tabindex="0">${execution.note}</pre>`;
  if (before.note === execution.note)
    return html`<pre tabindex="0">${execution.note}</pre><p class="faint">${text.same(before.attempt)}</p>`;
  const parts = diffWords(before.note, execution.note);
  if (!parts.some((part) => part.kind === 'same'))
    return html`<pre tabindex="0">${execution.note}</pre><p class="faint">${text.another(before.attempt)}</p>`;
  return html`
    <pre tabindex="0">
      ${parts.map((part) =>
        part.kind === 'same'
          ? part.text
          : part.kind === 'new'
            ? html`<ins>${part.text}</ins>`
            : html`<del>${part.text}</del>`,
      )}
    </pre>
    <p class="faint">${text.difference(before.attempt)}</p>
  `;
}

function Attempt({ execution, before, span, open }) {
  const says = execution.note || execution.log;
  const head = html`
    <span class="what">
      <b>${text.attempt(execution.attempt)}</b>
      <${StateBadge} word=${execution.ending} />
      ${execution.reason ? html`<span class="faint">${execution.reason.replaceAll('_', ' ')}</span>` : null}
    </span>
    <span class="when faint"><${When} at=${execution.started_at} /></span>
    <span class="num durations">
      <span class="faint">${text.waited}</span> ${duration(execution.waited_ms)} <span class="faint">
        ${text.ran}
      </span> ${duration(execution.took_ms)}
    </span>
  `;
  const bars = html`<${Bars} execution=${execution} span=${span} />`;
  if (!says) return html`<li><div class="line">${head}${bars}</div></li>`;
  return html`<li>
    <details open=${open}>
      <summary class="line">${head}${bars}</summary>
      <${Note} execution=${execution} before=${before} />
      ${execution.log ? html`<h3>${text.log}</h3><pre tabindex="0">${execution.log}</pre>` : null}
      ${execution.process
        ? html`<p class="faint">
            ${text.by} <span class="mono" title=${execution.process}>${shortId(execution.process)}</span>
          </p>`
        : null}
    </details>
  </li>`;
}

/** The current attempt: who holds the lease, and until when. */
const Running = ({ of }) => html`<li class="now">
  <div class="line">
    <span class="what">
      <b>${text.attempt(of.attempt)}</b>
      <${Badge} tone=${of.phase === 'stale' ? 'bad' : 'busy'}>${of.phase}<//>
    </span>
    ${of.lease
      ? html`<span class="faint">
          ${text.leaseOf} <span class="mono" title=${of.lease.owner}>
            ${shortId(of.lease.owner)}
          </span> ${text.until} <${When} at=${of.lease.until} /> (<${Ago} at=${of.lease.until} />)
        </span>`
      : null}
  </div>
</li>`;

export function Attempts({ of }) {
  const attempts = of.executions;
  const isRunning = of.state === 'running';
  if (attempts.length === 0 && !isRunning)
    return html`<${Card} title=${text.title}><p class="faint">${text.none}</p><//>`;
  const instants = attempts.flatMap((one) => [Date.parse(one.due_at), Date.parse(one.ended_at)]);
  const span = [Math.min(...instants), Math.max(...instants)];
  const note = html`<span class="bar-legend">
    <i class="wait"></i>
    ${text.legend.wait}
    <i class="run"></i>
    ${text.legend.run}
  </span>`;
  return html`<${Card} title=${`${text.title} (${text.of(of.attempt, of.attempts_max)})`} actions=${note}>
    <ol class="attempts" reversed>
      ${isRunning ? html`<${Running} of=${of} />` : null}
      ${of.phase === 'retrying'
        ? html`<li class="now">
            <div class="line">
              <span class="what faint">${text.next}</span>
              <span class="faint"><${When} at=${of.due_at} /> (<${Ago} at=${of.due_at} />)</span>
            </div>
          </li>`
        : null}
      ${attempts.map(
        (execution, at) =>
          html`<${Attempt}
            key=${execution.id}
            execution=${execution}
            before=${attempts[at + 1]}
            span=${span}
            open=${at === 0 && execution.ending !== 'succeeded'}
          />`,
      )}
    </ol>
    ${attempts.length >= SHOWN_MAX ? html`<p class="faint">${text.more}</p>` : null}
  <//>`;
}
