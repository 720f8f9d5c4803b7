// New job dialog, with a live preview of the times and the same definition as TOML.

import { html, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { go } from '../../lib/route.js';
import { Choice } from '../../lib/choice.js';
import { FormDialog } from '../../lib/form.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { zone as viewerZone } from '../../lib/time.js';
import { Field, useToast } from '../../lib/ui.js';
import { Preview, scheduleOf, ScheduleFields, usePreview } from './schedule.js';
import { toml } from './toml.js';
import { json } from './trigger.js';
import { job as texts, jobs } from '../../texts.js';

const text = texts.create;
const EMPTY = {
  name: '',
  description: '',
  tags: '',
  target: 'http',
  url: '',
  method: 'POST',
  program: '',
  args: '',
  topic: '',
  payload: '',
  queue: '',
  overlap: '',
  misfire: '',
  timeout: '',
  retries: '',
};

const filled = (object) =>
  Object.fromEntries(
    Object.entries(object).filter(
      ([, value]) =>
        value !== '' && value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  );
const words = (list, by) =>
  list
    .split(by)
    .map((one) => one.trim())
    .filter(Boolean);

function targetOf(fields) {
  if (fields.target === 'http')
    return fields.url ? { http: filled({ method: fields.method, url: fields.url.trim() }) } : null;
  if (fields.target === 'command')
    return fields.program
      ? { command: filled({ program: fields.program.trim(), args: words(fields.args, '\n') }) }
      : null;
  if (!fields.topic) return null;
  return fields.target === 'publish' ? { publish: { topic: fields.topic.trim() } } : { topic: fields.topic.trim() };
}

/** Returns the definition; null while a required field is empty. */
function definition(fields, schedule, payload) {
  const [when, what] = [scheduleOf(schedule), targetOf(fields)];
  if (!fields.name.trim() || !when || !what) return null;
  const { description, queue, overlap, misfire, timeout } = fields;
  return filled({
    name: fields.name.trim(),
    description: description.trim(),
    tags: words(fields.tags, ','),
    ...when,
    queue,
    overlap,
    misfire,
    timeout,
    retry: fields.retries === '' ? null : Number(fields.retries),
    payload,
    ...what,
  });
}

function Target({ fields, input, set, wrong }) {
  return html`
    <div class="field">
      <span>${text.target}</span>
      <${Choice}
        label=${text.target}
        choices=${Object.entries(text.targets).map(([id, label]) => ({ id, label }))}
        current=${fields.target}
        onChoose=${(target) => set({ target })}
      />
    </div>
    ${fields.target === 'http'
      ? html`<div class="columns slim">
          <${Field} label=${text.method}>
            <select ...${input('method')}>
              ${['POST', 'GET', 'PUT', 'PATCH', 'DELETE'].map(
                (method) => html`<option key=${method}>${method}</option>`,
              )}
            </select>
          <//>
          <${Field} label=${text.url} error=${wrong.http ?? wrong['http.url']}>
            <input type="url" placeholder="https://example.org/hook" ...${input('url')} />
          <//>
        </div>`
      : null}
    ${fields.target === 'command'
      ? html`
          <${Field} label=${text.program} hint=${text.commandHint} error=${wrong.command ?? wrong['command.program']}>
            <input class="mono" placeholder="/usr/local/bin/report" ...${input('program')} />
          <//>
          <${Field} label=${text.args} hint=${text.argsHint}><textarea rows="2" ...${input('args')}></textarea><//>
        `
      : null}
    ${fields.target === 'publish' || fields.target === 'topic'
      ? html`<${Field} label=${text.topic} error=${wrong.topic ?? wrong['publish.topic']}>
          <input ...${input('topic')} />
        <//>`
      : null}
  `;
}

const Select = ({ label, values, input, hint, error }) =>
  html`<${Field} label=${label} hint=${hint} error=${error}>
    <select ...${input}>
      <option value="">${text.default}</option>
      ${Object.entries(values).map(([id, shown]) => html`<option key=${id} value=${id}>${shown}</option>`)}
    </select>
  <//>`;

function Policies({ fields, input, wrong, payload }) {
  return html`<details>
    <summary>${text.more}</summary>
    <${Field} label=${text.tags} hint=${text.tagsHint} error=${wrong.tags}><input ...${input('tags')} /><//>
    <div class="columns">
      <${Field} label=${text.queue} error=${wrong.queue}><input placeholder="default" ...${input('queue')} /><//>
      <${Field} label=${text.timeout} hint=${texts.edit.timeoutHint} error=${wrong.timeout}>
        <input placeholder="30s" ...${input('timeout')} />
      <//>
      <${Field} label=${text.retries} error=${wrong.retry}>
        <input type="number" min="0" max="1000" ...${input('retries')} />
      <//>
    </div>
    <${Select}
      label=${text.overlap}
      values=${jobs.overlapChoices}
      input=${input('overlap')}
      hint=${jobs.overlapWords[fields.overlap || 'skip']}
      error=${wrong.overlap}
    />
    <${Select}
      label=${text.misfire}
      values=${jobs.misfireChoices}
      input=${input('misfire')}
      hint=${jobs.misfireWords[fields.misfire || 'fire_now']}
      error=${wrong.misfire}
    />
    <${Field} label=${text.payload} error=${payload.wrong ?? wrong.payload}>
      <textarea rows="3" ...${input('payload')}></textarea>
    <//>
  </details>`;
}

export function NewJob({ onClose }) {
  const toast = useToast();
  const [fields, setFields] = useState(EMPTY);
  const [schedule, setSchedule] = useState({
    kind: 'cron',
    cron: '',
    zone: viewerZone === 'UTC' ? '' : viewerZone,
    every: '',
    at: '',
  });
  const set = (changes) => setFields((before) => ({ ...before, ...changes }));
  const input = (name) => ({ value: fields[name], onInput: (event) => set({ [name]: event.target.value }) });
  const preview = usePreview(scheduleOf(schedule), fields.name.trim() || null);
  const payload = json(fields.payload);
  const spec = definition(fields, schedule, payload.value);
  const make = async () => {
    await post('/jobs', spec);
    toast({ text: text.done(spec.name) });
    setTimeout(() => go(['jobs', spec.name]));
  };
  return html`<${FormDialog}
    wide
    role="admin"
    title=${text.title}
    button=${text.button}
    ready=${spec !== null && !preview.error && !payload.wrong}
    cli=${spec ? cli.create(spec) : null}
    onDo=${make}
    onClose=${onClose}
  >
    ${(wrong) => html`<div class="halves">
      <div>
        <${Field} label=${text.name} hint=${text.nameHint} error=${wrong.name}>
          <input autofocus required spellcheck="false" autocomplete="off" maxlength="200" ...${input('name')} />
        <//>
        <${Field} label=${text.description} error=${wrong.description}><input ...${input('description')} /><//>
        <${ScheduleFields} value=${schedule} onChange=${setSchedule} wrong=${{ ...wrong, ...preview.fields }} />
        <${Target} fields=${fields} input=${input} set=${set} wrong=${wrong} />
        <${Policies} fields=${fields} input=${input} wrong=${wrong} payload=${payload} />
      </div>
      <div>
        <${Preview} preview=${preview} />
        ${spec ? html`<h3>${text.fileTitle}</h3><pre>${toml(spec)}</pre>` : null}
      </div>
    </div>`}
  <//>`;
}
