// Which module shows which page.

import { html } from './lib/html.js';
import { Card, Empty, Head } from './lib/ui.js';
import { to } from './lib/route.js';
import { shell } from './texts.js';
import { Overview } from './pages/overview.js';
import { JobsOrJob } from './pages/job.js';
import { Calendar } from './pages/calendar.js';
import { Batches } from './pages/batches.js';
import { MessagesOrMessage } from './pages/messages.js';
import { Executions } from './pages/messages/executions.js';
import { QueuesOrQueue } from './pages/queues.js';
import { Dead } from './pages/dead.js';
import { Topics } from './pages/topics.js';
import { Workers } from './pages/workers.js';
import { Storage } from './pages/storage.js';
import { Audit } from './pages/audit.js';
import { Settings } from './pages/settings.js';

function Missing() {
  return html`<${Head} title="No such page" /><${Card}><${Empty} title="There is no such page."><a href=${to(['overview'])}>${shell.pages.overview}</a><//><//>`;
}

export const pages = {
  missing: Missing,
  overview: Overview,
  jobs: JobsOrJob,
  calendar: Calendar,
  batches: Batches,
  messages: MessagesOrMessage,
  executions: Executions,
  queues: QueuesOrQueue,
  dead: Dead,
  topics: Topics,
  workers: Workers,
  storage: Storage,
  audit: Audit,
  settings: Settings,
};
