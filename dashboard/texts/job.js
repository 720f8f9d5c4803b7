// Texts of the page of a job and of its dialogs.

import { some } from './words.js';

export const job = {
  crumb: 'Jobs',
  gone: 'There is no such job.', planned: 'Look for one-time jobs of this name',
  why: {
    broken: 'It cannot run here.', misconfigured: 'Its configured schedule is wrong and not used.',
    retiredFinished: 'It is finished: its schedule has no more times.', retiredRemoved: 'It was removed and fires no more; its history is kept.',
    paused: (by) => `Paused by ${by}.`, until: 'Goes on by itself', forever: 'It stays paused until somebody resumes it.',
    late: (length) => `It should have fired ${length} ago.`, lateHint: 'No scheduler has fired it: look whether a process with the role scheduler runs.', workers: 'Processes',
    running: (count) => (count === 1 ? 'One run is going on.' : `${count} runs are going on.`), next: 'Next run', never: 'It has never run.', noNext: 'No further time is planned.',
    failing: (count) => (count === 1 ? 'The last run failed.' : `The last ${count} runs failed.`), lastError: 'The last error', good: 'On time.', message: 'The message', waiting: 'A run waits', waits: 'A run is due and waits.',
  },
  facts: {
    schedule: 'Schedule', expression: 'Expression', zone: 'Zone', next: 'Next', last: 'Last', cursor: 'Cursor', runs: 'Runs so far', queue: 'Queue', topic: 'Topic', priority: 'Priority', overlap: 'Overlap', misfire: 'Misfire', retry: 'Retry', timeout: 'Timeout', interrupted: 'When interrupted', notAgain: 'not run again',
    jitter: 'Jitter', expires: 'Expires after', concurrency: 'At most at once', rate: 'Rate', source: 'Defined in', app: 'Application', tags: 'Tags', created: 'Made', updated: 'Changed', none: 'none',
    sources: { file: 'the configuration file', api: 'the API', code: 'code' }, attempts: (count) => (count === 1 ? 'no retry' : `${count} attempts`), unlimited: 'as often as it takes', missedAfter: (length, why) => `Missed when later than ${length} (${why}).`, thresholds: { given: 'as given', default: 'the default', next_occurrence: 'the distance to the next time' },
  },
  tabs: { timeline: 'Timeline', history: 'History', upcoming: 'Upcoming', layers: 'Overrides', misfire: 'Misfire preview', target: 'Target and payload' },
  timeline: {
    title: 'Every time of the schedule, with what was decided and why', none: 'No time of the schedule lies in this range.', now: 'now', older: 'Older', newer: 'Newer', today: 'Around now', all: 'Everything',
    decisions: { ran: 'ran', failed: 'failed', skipped: 'skipped', running: 'running', waiting: 'waiting', planned: 'planned', missed: 'missed' },
    columns: { nominal: 'Planned for', decision: 'Decision', reason: 'Reason', late: 'Began late by', attempts: 'Attempts', message: 'Message' },
    show: 'show', ahead: (count) => `${count} further planned ${count === 1 ? 'time' : 'times'}: show`, label: (count) => `${count} ${count === 1 ? 'time' : 'times'}`, filter: 'Show only', cells: 'One cell per time, oldest first',
  },
  history: {
    durations: 'How long each run took', none: 'It has not run yet.', noMatch: 'No run ended so.', all: 'Every ending',
    columns: { nominal: 'Planned for', ending: 'Ending', started: 'Started', waited: 'Waited', took: 'Took', attempt: 'Attempt', note: 'Note' }, log: 'Log', manual: 'by hand', ending: 'Ending', label: (count, top) => `${count} ${count === 1 ? 'run' : 'runs'}; the longest took ${top}`,
  },
  upcoming: {
    none: 'No further time is planned.', noneText: 'It is paused, retired, or its schedule has ended.', count: 'How many', columns: { at: 'Your time', local: 'Local time', note: 'Remark', skip: 'Skip' }, skipped: 'will be skipped', clock: 'clock change', skip: 'Skip this one', in: 'When',
  },
  layers: {
    title: 'Where each value comes from; the rightmost one wins', columns: { field: 'Field', declared: 'Declared', configured: 'Configured', overridden: 'Operator', effective: 'In force', reset: 'Reset' },
    reset: 'Reset', resetAll: 'Reset all', none: 'Nothing is set.', done: (field) => `${field} is as declared again.`, allDone: 'Everything is as declared again.',
  },
  misfire: { title: 'If the scheduler were down from now on for …', own: 'Another length', missed: 'would be missed', runs: 'Would run', skipped: 'Would be left out', next: 'Next in time', none: 'none', makesUp: 'makes up', lateOnly: 'a little late', and: (count) => `and ${count} more`, times: (count) => `${count} times, the newest` },
  target: { title: 'What it does', payload: 'Payload', noPayload: 'It has no payload.', raw: 'Everything the API says' },
  act: {
    trigger: 'Run now', pause: 'Pause', resume: 'Resume', edit: 'Edit', backfill: 'Backfill', more: 'More', skip: 'Skip next', cursor: 'Move cursor', remove: 'Delete', retired: 'It is retired.', fileOnly: (source) => `It is defined in ${source}; remove it there.`,
  },
  trigger: { title: (name) => `Run ${name} now`, about: 'Its schedule is left alone.', ignore: 'Run it beside what is alive, whatever the overlap policy says', payload: 'Another payload this once (JSON)', payloadHint: 'Left empty, it gets the one it always gets.', button: 'Run now', done: 'It runs now.', wrong: 'This is not JSON' },
  pause: {
    title: (name) => `Pause ${name}`, about: 'What runs goes on; nothing new is fired until it is resumed, also after a restart.', reason: 'Why', reasonHint: 'The next person who looks will read this.', until: 'Until', button: 'Pause',
    untils: { '': 'somebody resumes it', '1h': 'in one hour', '8h': 'in eight hours', '24h': 'in one day', own: 'a time of your choice' }, own: 'Time', done: (name) => `${name} is paused.`,
  },
  resumed: (name) => `${name} fires again.`,
  skip: { title: 'Skip the next run', text: 'It is left out and recorded as skipped. The one after it runs as planned.', button: 'Skip it', done: (time) => `${time} will be skipped.` },
  cursor: { title: 'Move the cursor', about: 'The cursor is the next occurrence to decide about. Forward, what lies between is skipped and recorded; back, it is decided about again by the misfire policy.', to: 'To the first occurrence from', button: 'Move it', done: 'The cursor was moved.', now: 'It stands at', back: 'This lies in the past: what was there is decided about again.' },
  edit: {
    title: (name) => `Edit ${name}`, about: 'Your values are put over the declared ones, which stay below and come back with a reset.', button: 'Save', done: 'Saved.', nothing: 'Nothing is different yet.',
    timeout: 'Timeout', timeoutHint: 'A length such as 30s or 5m.', retries: 'Retries after the first attempt', misfire: 'Missed occurrences', keep: 'as it is', conflict: 'Somebody changed it meanwhile. Load it again and repeat your change.',
  },
  schedule: {
    kind: 'Schedule', kinds: { cron: 'Cron', every: 'Interval', once: 'Once' }, cron: 'Cron expression', cronHint: 'minute hour day month weekday, seconds in front if needed', zone: 'Zone', zoneHint: 'An IANA name such as Europe/Warsaw; UTC when empty.', every: 'Every', everyHint: 'A length such as 30s, 5m or 2h.', at: 'At',
    preview: 'The next ten times', now: 'Now', then: 'Then', same: 'unchanged', added: 'new', gone: 'gone', empty: 'Its times show here once the schedule is right.', none: 'It never runs.', change: 'clock change', here: 'your time', difference: (added, gone) => `${added} new, ${gone} gone among the next ten`, unchanged: 'The next ten times stay the same.',
  },
  create: {
    title: 'New job', name: 'Name', nameHint: 'At most 200 printable characters, not beginning with ~; it cannot be changed later.', description: 'What it is for', tags: 'Tags', tagsHint: 'Words with commas between.', target: 'What it does', targets: { http: 'Call a URL', command: 'Program', publish: 'Publish', topic: 'Handler' },
    url: 'URL', method: 'Method', program: 'Program', args: 'Arguments', argsHint: 'One per line.', topic: 'Topic', body: 'Body', payload: 'Payload (JSON)', button: 'Make it', done: (name) => `${name} is there.`, more: 'Policies and limits', queue: 'Queue', overlap: 'While a run is alive', misfire: 'Missed occurrences', timeout: 'Timeout', retries: 'Retries', fileTitle: 'The same in punctual.toml', usual: 'usual', commandHint: 'Commands must be enabled in the configuration.', what: 'What it is', when: 'When it runs',
  },
  backfill: {
    title: (name) => `Backfill ${name}`, about: 'Runs occurrences of the past, each in its own name. The schedule is left alone. The same backfill asked for again runs nothing twice while its messages are kept.', from: 'From', to: 'Before', which: 'Which', whiches: { missing: 'those that never ran', all: 'all of them' }, order: 'Order', orders: { oldest: 'oldest first', newest: 'newest first' }, max: 'At most', look: 'Look what would run', button: (count) => `Run ${count}`,
    found: (count) => (count === 1 ? 'One occurrence would run.' : `${count} occurrences would run.`), present: (count) => `${count} ${count === 1 ? 'has run already and is' : 'have run already and are'} left out.`, duplicates: (count) => `${count} ${count === 1 ? 'is' : 'are'} there already.`, more: 'The range holds more; they are left for another time.', none: 'Nothing would run.', done: (count) => (count === 1 ? 'One run was started.' : `${count} runs were started.`),
  },
  remove: {
    title: (name) => `Delete ${name}`, text: (name, waiting, dead) => `Deletes the job ${name}, its whole history, ${waiting} and ${dead}. Runs that have started end as they would. This cannot be undone.`,
    waiting: { none: 'no waiting messages', some: (count, number, more) => `${more ? 'at least ' : ''}${some(count, number, 'waiting message')}`, unknown: 'all waiting messages' },
    dead: { none: 'no dead letters', some: (count, number, more) => `${more ? 'at least ' : ''}${some(count, number, 'dead letter')}`, unknown: 'all dead letters' },
    counting: 'Counting what would be deleted …',
    type: (name) => `Write ${name} to confirm`, button: 'Delete', done: (name) => `${name} was deleted.`,
  },
};
