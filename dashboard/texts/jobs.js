// Texts of the list of jobs, and of what is said about a job in more than one place.

export const jobs = {
  title: 'Jobs',
  about: 'What runs on a schedule: when it runs next, how it went, and what is wrong with it.',
  tabs: { jobs: 'Jobs', planned: 'One-time jobs' },
  planned: {
    about: 'What applications planned to run once: when it is due, and whether it waits, is paused or runs.',
    search: 'Search name, key or id', paused: 'paused', pausedBy: (by, reason) => `Paused by ${by}: ${reason}`,
    columns: { name: 'Job', key: 'Key', state: 'State', due: 'Due', made: 'Planned' },
    none: { title: 'No one-time job is planned', text: 'Applications plan them in code. Each stands here until it has run.' },
    noMatch: { title: 'No one-time job fits', text: 'Change or clear the search.', clear: 'Clear the search' },
  },
  search: 'Search name, topic, description or tag', phase: 'Phase', tag: 'Tag', app: 'Application', configurationFile: 'the configuration file', allPhases: 'Every phase', allTags: 'Every tag', allApps: 'Every application', sort: 'Sort',
  phases: { active: 'Active', paused: 'Paused', retired: 'Retired' },
  sorts: { name: 'by name', next: 'by next run', last: 'by last run' },
  columns: { name: 'Job', state: 'State', recent: 'Last 30 runs', schedule: 'Schedule', next: 'Next', actions: 'Actions' },
  last: 'last',
  none: { title: 'No jobs yet', text: 'Make one here, write it into punctual.toml, or declare it in code.' },
  noMatch: { title: 'No job fits', text: 'Change or clear the filters.', clear: 'Clear the filters' },
  create: 'New job',
  strip: (good, bad, other) => `the last ${good + bad + other} runs: ${good} succeeded, ${bad} failed, ${other} otherwise`,
  flags: { late: (length) => `late by ${length}`, broken: 'broken', misconfigured: 'misconfigured', edited: 'edited', running: (count) => `${count} running`, once: 'once' },
  misfire: { fire_now: 'missed: oldest', fire_once: 'missed: newest', fire_all: 'missed: all', skip_to_next: 'missed: skip' },
  misfireChoices: { fire_now: 'run once, as the oldest', fire_once: 'run once, as the newest', fire_all: 'run them all', skip_to_next: 'leave them out' },
  overlap: { skip: 'overlap: skip', queue_one: 'overlap: queue', allow: 'overlap: allow', cancel_running: 'overlap: cancel running' },
  overlapChoices: { skip: 'leave the next one out', queue_one: 'let one wait', allow: 'run side by side', cancel_running: 'end the one that runs' },
  misfireWords: {
    fire_now: 'One run at once stands for everything missed, in the name of the oldest.', fire_once: 'One run at once stands for everything missed, in the name of the newest.',
    fire_all: 'Every missed occurrence runs, oldest first, up to a limit.', skip_to_next: 'What was missed is left out; the next one runs in time.',
  },
  overlapWords: {
    skip: 'While a run is alive the next one is left out.', queue_one: 'While a run is alive one more waits for it.', allow: 'Runs may go on side by side.', cancel_running: 'A new run ends the one that is alive.',
  },
  act: {
    trigger: 'Run now', run: 'Run', pause: 'Pause', resume: 'Resume', triggered: (name) => `${name} runs now.`, paused: (name) => `${name} is paused.`, resumed: (name) => `${name} fires again.`, seeMessage: 'See the message',
  },
};
