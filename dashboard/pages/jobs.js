// Jobs page: next run, recent runs, problems and actions of each job.

import { html, useRef, useState } from '../lib/html.js';
import { refine, to } from '../lib/route.js';
import { jobPage } from '../lib/links.js';
import { MoreRows, NewRows, useLiveList } from '../lib/live_list.js';
import { jobActions, Flags, shortSchedule, Policies, RecentRuns } from '../lib/job.js';
import { jobs as cli } from '../lib/cli_commands.js';
import { Ago } from '../lib/time.js';
import { ActionButton, Card, Empty, Head, Loaded, Table, tone, useToast } from '../lib/ui.js';
import { Pause } from './job/pause.js';
import { NewJob } from './job/create.js';
import { JobTabs, PlannedJobs, VIEW } from './jobs/planned.js';
import { Search } from './jobs/search.js';
import { jobs as text } from '../texts.js';

const ON = [
  'job.declared',
  'job.fired',
  'job.misfired',
  'job.skipped',
  'job.changed',
  'job.retired',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
];
const Select = ({ name, label, all, values, current }) => html`<select
  aria-label=${label}
  value=${current ?? ''}
  onChange=${(event) => refine({ [name]: event.target.value, after: null })}
>
  ${all ? html`<option value="">${all}</option>` : null}
  ${values.map(([value, shown]) => html`<option key=${value} value=${value}>${shown}</option>`)}
</select>`;

/** Tags or applications to choose from: those of all rows shown so far, and the selected one. */
function useKnownValues(rows, pick, chosen) {
  const seen = useRef(new Set());
  for (const row of rows) for (const value of pick(row)) seen.current.add(value);
  if (chosen) seen.current.add(chosen);
  return [...seen.current].sort().map((value) => [value, value]);
}

function Filters({ query, rows }) {
  const tags = useKnownValues(rows, (row) => row.tags, query.tag);
  const apps = useKnownValues(rows, (row) => [row.app], query.app);
  return html`<div class="filters">
    <${Search} value=${query.search} label=${text.search} />
    <${Select}
      name="phase"
      label=${text.phase}
      all=${text.allPhases}
      values=${Object.entries(text.phases)}
      current=${query.phase}
    />
    <${Select} name="tag" label=${text.tag} all=${text.allTags} values=${tags} current=${query.tag} />
    <${Select} name="app" label=${text.app} all=${text.allApps} values=${apps} current=${query.app} />
    <${Select} name="sort" label=${text.sort} values=${Object.entries(text.sorts)} current=${query.sort ?? 'name'} />
  </div>`;
}

function RowActions({ job, onPause, onDone }) {
  const toast = useToast();
  const did = (words, call) => async () => {
    await call();
    toast({ text: words });
    onDone();
  };
  const { act } = text;
  if (job.phase === 'retired') return null;
  return html`<span class="row-actions">
    <${ActionButton}
      kind="small"
      label=${`${act.trigger}: ${job.name}`}
      title=${act.trigger}
      cli=${cli.trigger(job.name)}
      onClick=${did(act.triggered(job.name), () => jobActions.trigger(job.name))}
    >
      ${act.run}
    <//>
    ${job.phase === 'paused'
      ? html`<${ActionButton}
          kind="small"
          label=${`${act.resume}: ${job.name}`}
          cli=${cli.resume(job.name)}
          onClick=${did(act.resumed(job.name), () => jobActions.resume(job.name))}
        >
          ${act.resume}
        <//>`
      : html`<${ActionButton}
          kind="small"
          label=${`${act.pause}: ${job.name}`}
          cli=${cli.pause(job.name)}
          onClick=${() => onPause(job)}
        >
          ${act.pause}
        <//>`}
  </span>`;
}

const Name = ({ job }) => html`<span class="clip" title=${job.name}>${job.name}</span>`;
const About = ({ job }) =>
  html`<span class="faint clip">
    ${[job.description, job.tags.map((tag) => `#${tag}`).join(' ')].filter(Boolean).join(' ') ||
    (job.source === 'file' ? text.configurationFile : job.app)}
  </span>`;
const When = ({ job }) =>
  html`<div class="two-lines">
    <span class="clip" title=${job.in_words === job.schedule ? job.schedule : `${job.in_words} (${job.schedule})`}>
      ${shortSchedule(job)}
      ${job.zone ? html` <span class="faint">${job.zone}</span>` : null}
    </span>
    <${Policies} job=${job} />
  </div>`;
const Runs = ({ job }) =>
  html`<div class="two-lines">
    <${RecentRuns} job=${job} />
    ${job.last
      ? html`<span class="faint small-line">
          ${text.last} <${Ago} at=${job.last.ended_at} />
          ${job.last.ending === job.word
            ? null
            : html` <i class="dot ${tone(job.last.ending)}" title=${job.last.ending.replaceAll('_', ' ')}></i>`}
        </span>`
      : null}
  </div>`;

const columns = (onPause, onDone) => [
  { id: 'name', label: text.columns.name, cell: (job) => html`<${Name} job=${job} /><${About} job=${job} />` },
  { id: 'state', label: text.columns.state, cell: (job) => html`<${Flags} job=${job} />` },
  { id: 'recent', label: text.columns.recent, sort: 'last', cell: (job) => html`<${Runs} job=${job} />` },
  { id: 'schedule', label: text.columns.schedule, cell: (job) => html`<${When} job=${job} />` },
  {
    id: 'next',
    label: text.columns.next,
    sort: 'next',
    class: 'nowrap',
    cell: (job) => html`<${Ago} at=${job.next_at} zone=${job.zone} />`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (job) => html`<${RowActions} job=${job} onPause=${onPause} onDone=${onDone} />`,
  },
];

function None({ query }) {
  const filtered = query.search || query.phase || query.tag || query.app;
  if (!filtered)
    return html`<${Empty} title=${text.none.title} icon="◷">
      <p>${text.none.text}</p>
      <a class="button" href=${to(['jobs'], { new: '1' })}>${text.create}</a>
    <//>`;
  return html`<${Empty} title=${text.noMatch.title}>
    <p>${text.noMatch.text}</p>
    <button onClick=${() => refine({ search: null, phase: null, tag: null, app: null, after: null })}>
      ${text.noMatch.clear}
    </button>
  <//>`;
}

/** The jobs with a schedule, or the planned one-time jobs. */
export function Jobs({ route: { query } }) {
  const isPlanned = query.view === VIEW;
  return html`
    <${Head} title=${text.title} about=${isPlanned ? text.planned.about : text.about}>
      ${isPlanned
        ? null
        : html`<${ActionButton} role="admin" kind="primary" cli=${cli.create()} onClick=${() => refine({ new: '1' })}>
            ${text.create}
          <//>`}
    <//>
    <${JobTabs} current=${isPlanned ? VIEW : 'jobs'} />
    ${isPlanned ? html`<${PlannedJobs} query=${query} />` : html`<${JobList} query=${query} />`}
  `;
}

function JobList({ query }) {
  const { search, phase, tag, app, sort, after } = query;
  const list = useLiveList('/jobs', { search, phase, tag, app, sort, after }, { id: (job) => job.name, on: ON });
  const [pausing, setPausing] = useState(null);
  return html`
    <${Filters} query=${query} rows=${list.rows} />
    <${Card} flush class="jobs">
      <${NewRows} of=${list} />
      <${Loaded} of=${list} skeleton=${10}>
        ${(rows) => html`<${Table}
          columns=${columns(setPausing, list.refresh)}
          rows=${rows}
          id=${(job) => job.name}
          href=${(job) => jobPage(job.name)}
          sort=${sort}
          onSort=${(by) => refine({ sort: by, after: null })}
          empty=${html`<${None} query=${query} />`}
        />`}
      <//>
      <${MoreRows} of=${list} after=${after} />
    <//>
    ${pausing ? html`<${Pause} name=${pausing.name} onClose=${() => setPausing(null)} onDone=${list.refresh} />` : null}
    ${query.new ? html`<${NewJob} onClose=${() => refine({ new: null })} />` : null}
  `;
}
