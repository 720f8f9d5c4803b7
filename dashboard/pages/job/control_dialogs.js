// Control dialogs of a job: skip the next run, move the cursor, delete.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, remove } from '../../lib/api.js';
import { go } from '../../lib/route.js';
import { FormDialog, inputOf, instantOf } from '../../lib/form.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { useLoad } from '../../lib/live.js';
import { count } from '../../lib/number.js';
import { clock, When } from '../../lib/time.js';
import { Field, useToast } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

export function Skip({ job, nominal, onClose, onDone }) {
  const toast = useToast();
  const text = texts.skip;
  const skip = async () => {
    const done = await jobActions.skip(job.name, nominal);
    toast({ text: text.done(clock(done.nominal ?? nominal ?? job.next_at)) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title}
    button=${text.button}
    cli=${cli.skip(job.name, nominal)}
    onDo=${skip}
    onClose=${onClose}
  >
    ${() => html`<p><${When} at=${nominal ?? job.next_at} zone=${job.zone} /></p><p class="soft">${text.text}</p>`}
  <//>`;
}

export function Cursor({ job, onClose, onDone }) {
  const toast = useToast();
  const text = texts.cursor;
  const [to, setTo] = useState(() => inputOf(job.cursor ?? Date.now()));
  const move = async () => {
    await jobActions.cursor(job.name, instantOf(to));
    toast({ text: text.done });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title}
    about=${text.about}
    button=${text.button}
    ready=${Boolean(instantOf(to))}
    cli=${cli.cursor(job.name, instantOf(to))}
    onDo=${move}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <p>${text.now} <${When} at=${job.cursor} zone=${job.zone} /></p>
      <${Field} label=${text.to} error=${wrong.to}>
        <input type="datetime-local" value=${to} onInput=${(event) => setTo(event.target.value)} />
      <//>
      ${instantOf(to) && new Date(to) < Date.now() ? html`<p class="notice warn">${text.back}</p>` : null}
    `}
  <//>`;
}

/** Largest number of messages that are counted exactly. */
const COUNTED_MAX = 1_000;

/** Text for the number of messages that are deleted with the job. */
export function countText({ data, error }, words) {
  if (error || !data) return words.unknown;
  const number = data.items.length;
  return number === 0 && !data.next ? words.none : words.some(count(number), number, Boolean(data.next));
}

export function Remove({ job, onClose }) {
  const toast = useToast();
  const text = texts.remove;
  const [typed, setTyped] = useState('');
  const counted = (state) => (signal) => get('/messages', { job: job.name, state, limit: COUNTED_MAX }, { signal });
  const waiting = useLoad(counted('pending'), job.name);
  const dead = useLoad(counted('dead'), job.name);
  const isCounting = [waiting, dead].some((one) => one.loading && !one.data);
  const removeJob = async () => {
    await remove(`/jobs/${pathSegment(job.name)}`);
    toast({ text: text.done(job.name) });
    go(['jobs']);
  };
  return html`<${FormDialog}
    role="admin"
    kind="danger"
    title=${text.title(job.name)}
    button=${text.button}
    ready=${!isCounting && typed.trim() === job.name}
    cli=${cli.remove(job.name)}
    onDo=${removeJob}
    onClose=${onClose}
  >
    ${() => html`
      <p role="status">
        ${isCounting
          ? text.counting
          : text.text(job.name, countText(waiting, text.waiting), countText(dead, text.dead))}
      </p>
      <${Field} label=${text.type(job.name)}>
        <input autofocus value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />
      <//>
    `}
  <//>`;
}
