// Edit dialog: overrides schedule, retries, timeout and misfire policy of a job.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, patch } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { FormDialog, inputOf } from '../../lib/form.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { Field, useToast } from '../../lib/ui.js';
import { Preview, scheduleOf, ScheduleFields, usePreview } from './schedule.js';
import { job as texts, jobs } from '../../texts.js';

const text = texts.edit;
const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
];

/** Formats a duration as the API expects it: `90000` becomes `1m 30s`. */
export function formatDuration(milliseconds) {
  let left = milliseconds;
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count) {
      parts.push(`${count}${unit}`);
      left -= count * size;
    }
  }
  return parts.join(' ') || '0s';
}

const currentSchedule = (job) => ({
  kind: job.kind === 'once' ? 'once' : job.kind,
  cron: job.cron ?? '',
  zone: job.zone ?? '',
  every: job.every_ms ? formatDuration(job.every_ms) : '',
  at: job.at ? inputOf(job.at) : '',
});

/** Returns the changed fields. */
function changes(job, schedule, fields) {
  const before = scheduleOf(currentSchedule(job));
  const after = scheduleOf(schedule);
  const all = {};
  if (after)
    for (const [key, value] of Object.entries(after)) if (before?.[key] !== value && key !== 'at') all[key] = value;
  if (after?.cron && before?.zone && !after.zone) all.zone = 'UTC';
  if (fields.timeout.trim() !== (job.timeout_ms ? formatDuration(job.timeout_ms) : ''))
    all.timeout = fields.timeout.trim() || null;
  if (fields.retries !== '' && Number(fields.retries) !== (job.retry.attempts_max ?? 0) - 1)
    all.retry = Number(fields.retries);
  if (fields.misfire !== job.misfire.policy) all.misfire = fields.misfire;
  return all;
}

/** Fields that an edit changes; a run changes the version of a job but none of these. */
const settings = (job) => JSON.stringify([job.schedule, job.retry, job.timeout_ms, job.misfire, job.overridden]);

/** Sends the edit. A version conflict caused by a run is retried, one caused by another edit is reported. */
async function send(loaded, edit, attempts = 3) {
  try {
    await patch(`/jobs/${pathSegment(loaded.name)}`, edit, { headers: { 'if-match': `"${loaded.version}"` } });
  } catch (error) {
    if (error.status !== 412) throw error;
    const fresh = await jobActions.load(loaded.name);
    if (attempts === 0 || settings(fresh) !== settings(loaded)) throw Object.assign(error, { message: text.conflict });
    await send(fresh, edit, attempts - 1);
  }
}

export function Edit({ job: given, onClose, onDone }) {
  const toast = useToast();
  const [job] = useState(given);
  const [schedule, setSchedule] = useState(() => currentSchedule(job));
  const [fields, setFields] = useState(() => ({
    timeout: job.timeout_ms ? formatDuration(job.timeout_ms) : '',
    retries: job.retry.attempts_max ? String(job.retry.attempts_max - 1) : '',
    misfire: job.misfire.policy,
  }));
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.value });
  const preview = usePreview(scheduleOf(schedule), job.name);
  const now = useLoad((signal) => get(`/jobs/${pathSegment(job.name)}/upcoming`, { count: 10 }, { signal }), job.name);
  const edit = changes(job, schedule, fields);
  const save = async () => {
    await send(job, edit);
    toast({ text: text.done });
    onDone();
  };
  const ready = Object.keys(edit).length > 0 && !preview.error;
  return html`<${FormDialog}
    wide
    role="admin"
    title=${text.title(job.name)}
    about=${text.about}
    button=${text.button}
    ready=${ready}
    cli=${ready ? cli.edit(job.name, edit) : null}
    onDo=${save}
    onClose=${onClose}
  >
    ${(wrong) => html`<div class="halves">
      <div>
        ${job.kind === 'once'
          ? null
          : html`<${ScheduleFields}
              value=${schedule}
              onChange=${setSchedule}
              kinds=${['cron', 'every']}
              wrong=${{ ...wrong, ...preview.fields }}
            />`}
        <${Field} label=${text.timeout} hint=${text.timeoutHint} error=${wrong.timeout}>
          <input value=${fields.timeout} onInput=${set('timeout')} />
        <//>
        <${Field} label=${text.retries} error=${wrong.retry}>
          <input type="number" min="0" max="1000" value=${fields.retries} onInput=${set('retries')} />
        <//>
        <${Field} label=${text.misfire} hint=${jobs.misfireWords[fields.misfire]} error=${wrong.misfire}>
          <select value=${fields.misfire} onChange=${set('misfire')}>
            ${Object.entries(jobs.misfireChoices).map(
              ([id, label]) => html`<option key=${id} value=${id}>${label}</option>`,
            )}
          </select>
        <//>
      </div>
      <${Preview} preview=${preview} now=${now.data?.items ?? []} />
    </div>`}
  <//>`;
}
