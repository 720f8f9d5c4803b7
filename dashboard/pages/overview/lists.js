// Overview lists: failing and late jobs, queues with a problem, running messages, next runs, dead letters, deployments.

import { html } from '../../lib/html.js';
import { shortSchedule } from '../../lib/job.js';
import { system } from '../../lib/cli_commands.js';
import { useHoverFreeze } from '../../lib/hover_freeze.js';
import { to } from '../../lib/route.js';
import { jobPage, messagePage, messagesWith, queuePage } from '../../lib/links.js';
import { Ago, duration } from '../../lib/time.js';
import { count, short } from '../../lib/number.js';
import { Badge, Card, CliCommand, Progress, Sparkline } from '../../lib/ui.js';
import { overview as text } from '../../texts.js';

/** List of rows: name on the left, value on the right. */
function List({ rows, none }) {
  const [frozen, handlers] = useHoverFreeze(rows);
  return frozen.length === 0
    ? html`<p class="quiet-line">${none}</p>`
    : html`<ul class="rows" ...${handlers}>${frozen}</ul>`;
}

const Row = ({ href, name, about, children }) =>
  html`<li>
    <div class="what">
      <a class="row clip long" href=${href} title=${name}>${name}</a>
      ${about ? html`<span class="faint clip long">${about}</span>` : null}
    </div>
    <div class="value">${children}</div>
  </li>`;
const Link = ({ href, children }) => html`<a href=${href}>${children}</a>`;

export const Failing = ({ rows, count: number, more }) => html`<${Card}
  title=${text.failing.title}
  note=${text.failing.count(count(number), more)}
  class="failing"
  actions=${html`<${Link} href=${to(['jobs'], { sort: 'last' })}>${text.failing.all}<//>`}
  flush
>
  <${List}
    none=${text.failing.none}
    rows=${rows.map(
      (job) => html`<${Row}
        key=${job.name}
        href=${jobPage(job.name)}
        name=${job.name}
        about=${job.error ?? text.failing.noError}
      >
        <span class="faint">${text.failing.since} <${Ago} at=${job.since} /></span> <${Badge} tone="bad">
          ${text.failing.runs(job.failures, job.more)}
        <//>
      <//>`,
    )}
  />
<//>`;

export const Late = ({ rows }) => html`<${Card} title=${text.late.title} flush>
  <${List}
    none=${text.late.none}
    rows=${rows.map(
      (job) => html`<${Row}
        key=${job.name}
        href=${jobPage(job.name)}
        name=${job.name}
        about=${job.broken ?? shortSchedule(job)}
      >
        <${Badge} tone="bad">${text.late.due} <${Ago} at=${job.next_at} zone=${job.zone} /><//>
      <//>`,
    )}
  />
<//>`;

export const Problems = ({ rows }) => html`<${Card} title=${text.problems.title} flush>
  <${List}
    none=${text.problems.none}
    rows=${rows.map(
      (queue) => html`<${Row}
        key=${queue.name}
        href=${queuePage(queue.name)}
        name=${queue.name}
        about=${queue.paused
          ? `${text.problems.paused(queue.paused.by)}: ${queue.paused.reason}`
          : text.problems[queue.is_exact ? 'due' : 'waiting'](short(queue.is_exact ? queue.ready : queue.pending))}
      >
        ${queue.spark ? html`<${Sparkline} values=${queue.spark} width=${64} label=${queue.name} />` : null}
        ${queue.served || queue.paused ? null : html`<${Badge} tone="bad">${text.problems.noWorker}<//>`}
        <${Badge} tone=${queue.paused ? 'warn' : 'bad'}>${text.problems.oldest} ${duration(queue.oldest_age_ms)}<//>
      <//>`,
    )}
  />
<//>`;

export const Running = ({ rows }) => html`<${Card}
  title=${text.running.title}
  actions=${html`<${Link} href=${messagesWith({ state: 'running' })}>${text.running.all}<//>`}
  flush
>
  <${List}
    none=${text.running.none}
    rows=${rows.map(
      (message) => html`<${Row}
        key=${message.id}
        href=${messagePage(message.id)}
        name=${message.job ?? message.topic}
        about=${[message.key, message.progress?.note].filter(Boolean).join(' · ') || message.queue}
      >
        ${message.progress
          ? html`<${Progress} value=${message.progress.percent ?? 0} label=${`${message.progress.percent ?? 0} %`} />`
          : html`<span class="faint num">${message.attempt}/${message.attempts_max ?? '∞'}</span>`}
      <//>`,
    )}
  />
<//>`;

export const Next = ({ rows }) => html`<${Card}
  title=${text.next.title}
  actions=${html`<${Link} href=${to(['calendar'])}>${text.next.calendar}<//>`}
  flush
>
  <${List}
    none=${text.next.none}
    rows=${rows.map(
      (run) => html`<${Row} key=${run.job} href=${jobPage(run.job)} name=${run.job}><${Ago} at=${run.at} /><//>`,
    )}
  />
<//>`;

export const Dead = ({ dead }) => html`<${Card}
  title=${text.dead.title}
  actions=${html`<${Link} href=${to(['dead'])}>${text.dead.all}<//>`}
  flush
>
  <${List}
    none=${text.dead.none}
    rows=${dead.groups.map(
      (group) => html`<${Row}
        key=${group.fingerprint}
        href=${to(['dead', group.fingerprint])}
        name=${group.error}
        about=${[group.job ?? group.topic, group.reason].filter(Boolean).join(' · ')}
      >
        ${group.per_hour ? html`<${Sparkline} values=${group.per_hour} width=${72} label=${group.error} />` : null}
        <${Badge} tone="bad">${count(group.count)}<//>
      <//>`,
    )}
  />
<//>`;

export const Marks = ({ rows }) => html`<${Card} title=${text.marks.title} flush>
  <${List}
    none=${text.marks.none}
    rows=${rows
      .slice(-8)
      .reverse()
      .map(
        (mark) => html`<li key=${mark.at + mark.text}>
          <div class="what"><span class="clip long">${mark.text}</span></div>
          <div class="value">
            <${Badge} tone=${mark.kind === 'pause' ? 'warn' : 'idle'}>${mark.kind}<//> <${Ago} at=${mark.at} />
          </div>
        </li>`,
      )}
  />
<//>`;

/** First steps for an empty system. The test message is offered only when this process handles it, as a server does. */
export const Welcome = ({ tests }) => html`<${Card} title=${text.welcome.title}>
  <p>${tests ? text.welcome.text : text.welcome.textAlone}</p>
  <div class="inline">
    <a class="button" href=${to(['jobs'], { new: '1' })}>${text.welcome.job}</a>
    ${tests ? html`<${CliCommand} command=${system.greeting()} />` : null}
  </div>
<//>`;
