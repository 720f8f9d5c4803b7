// Job page: state, facts, tabs and actions of a job.

import { html } from '../lib/html.js';
import { useLoad } from '../lib/live.js';
import { parse, refine, to } from '../lib/route.js';
import { jobActions, Flags } from '../lib/job.js';
import { Card, Empty, Head, Loaded, Tabs } from '../lib/ui.js';
import { Jobs } from './jobs.js';
import { plannedPage } from './jobs/planned.js';
import { Actions, ActionDialog } from './job/actions.js';
import { Why } from './job/why.js';
import { JobFacts } from './job/facts.js';
import { Timeline } from './job/timeline.js';
import { History } from './job/history.js';
import { Upcoming } from './job/upcoming.js';
import { Layers } from './job/overrides.js';
import { Outage } from './job/misfire_preview.js';
import { Target } from './job/target.js';
import { job as text } from '../texts.js';

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
  'message.dead',
];
const VIEWS = {
  timeline: Timeline,
  history: History,
  upcoming: Upcoming,
  layers: Layers,
  misfire: Outage,
  target: Target,
};

/** A change on this page reloads the tab as well; `version` also counts runs. */
function Body({ job, query, reload }) {
  const tab = VIEWS[query.tab] ? query.tab : 'timeline';
  const View = VIEWS[tab];
  const tabs = Object.entries(text.tabs).map(([id, label]) => ({
    id,
    label,
    href: to(['jobs', job.name], { tab: id }),
    count: id === 'layers' && job.overridden.length ? job.overridden.length : null,
  }));
  return html`
    <${Head}
      title=${job.name}
      badges=${html`<${Flags} job=${job} />`}
      about=${job.description}
      crumbs=${html`<a href=${to(['jobs'])}>${text.crumb}</a>`}
    >
      <${Actions} job=${job} reload=${reload} />
    <//>
    <${Why} job=${job} />
    <${Card}><${JobFacts} job=${job} /><//>
    <${Tabs} tabs=${tabs} current=${tab} />
    <${View} key=${tab} job=${job} query=${query} reload=${reload} />
    ${query.do
      ? html`<${ActionDialog}
          what=${query.do}
          job=${job}
          nominal=${query.nominal}
          onClose=${() => {
            if (parse().query.do) refine({ do: null, nominal: null });
          }}
          onDone=${reload}
        />`
      : null}
  `;
}

function Job({ name, query }) {
  const loaded = useLoad((signal) => jobActions.load(name, signal), name, { on: ON, every: 1_000 });
  if (loaded.error?.status === 404)
    return html`
      <${Head} title=${name} crumbs=${html`<a href=${to(['jobs'])}>${text.crumb}</a>`} />
      <${Card}>
        <${Empty} title=${text.notFound}>
          <p>${loaded.error.message}</p>
          <a href=${plannedPage(name)}>${text.planned}</a>
        <//>
      <//>
    `;
  return html`<${Loaded} of=${loaded} skeleton=${12}>
    ${(job) => html`<${Body} job=${job} query=${query} reload=${loaded.reload} />`}
  <//>`;
}

/** `#/jobs` is the list, `#/jobs/NAME` is one job. */
export function JobsOrJob({ route }) {
  const name = route.parts[1];
  return name ? html`<${Job} key=${name} name=${name} query=${route.query} />` : html`<${Jobs} route=${route} />`;
}
