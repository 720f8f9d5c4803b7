// Page registry: the component of each page.

import { html } from './lib/html.js';
import { lazy } from './lib/lazy.js';
import { Card, Empty, Head } from './lib/ui.js';
import { to } from './lib/route.js';
import { shell } from './texts.js';
import { Overview } from './pages/overview.js';
import { JobsOrJob } from './pages/job.js';
import { Calendar } from './pages/calendar.js';
import { Batches } from './pages/batches.js';

function Missing() {
  return html`
    <${Head} title="No such page" />
    <${Card}><${Empty} title="There is no such page."><a href=${to(['overview'])}>${shell.pages.overview}</a><//><//>
  `;
}

export const pages = {
  missing: Missing,
  overview: Overview,
  jobs: JobsOrJob,
  calendar: Calendar,
  batches: Batches,
  messages: lazy(() => import('./pages/messages.js'), 'MessagesOrMessage'),
  executions: lazy(() => import('./pages/messages/executions.js'), 'Executions'),
  queues: lazy(() => import('./pages/queues.js'), 'QueuesOrQueue'),
  dead: lazy(() => import('./pages/dead.js'), 'Dead'),
  topics: lazy(() => import('./pages/topics.js'), 'Topics'),
  workers: lazy(() => import('./pages/workers.js'), 'Workers'),
  storage: lazy(() => import('./pages/storage.js'), 'Storage'),
  audit: lazy(() => import('./pages/audit.js'), 'Audit'),
  settings: lazy(() => import('./pages/settings.js'), 'Settings'),
};
