// Texts of the dashboard, one file per page under texts/.

export { shell } from './texts/shell.js';
export { overview } from './texts/overview.js';
export { jobs } from './texts/jobs.js';
export { job } from './texts/job.js';
export { calendar } from './texts/calendar.js';
export { batches } from './texts/batches.js';
export { messages } from './texts/messages.js';
export { message } from './texts/message.js';
export { bulkAction } from './texts/bulk_action.js';
export { filter } from './texts/filter.js';
export { queues } from './texts/queues.js';
export { dead } from './texts/dead.js';
export { topics } from './texts/topics.js';
export { audit, storage, workers } from './texts/system.js';
export { settings } from './texts/settings.js';
