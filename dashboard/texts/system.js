// Texts of workers, storage and the audit trail.

export const workers = {
  title: 'Workers', about: 'The processes that schedule, relay and handle work, and how busy each is.', none: 'No process is known.', noneText: 'Start one with punctual serve, embed the library, or let a program claim work over HTTP.',
  columns: { name: 'Process', state: 'State', roles: 'Roles', queues: 'Queues', memory: 'Memory', started: 'Up', seen: 'Seen', actions: 'Actions' },
  kinds: { server: 'server', http: 'over HTTP', embedded: 'embedded' }, states: { works: 'working', quiet: 'quiet', stopping: 'stopping', late: 'not heard of', idle: 'idle' }, running: (count) => `${count} running`, here: 'this page', topics: (count) => (count === 1 ? '1 topic' : `${count} topics`),
  quiet: { label: 'Quiet', title: (name) => `Quiet ${name}?`, text: (count) => `It claims nothing more. ${count === 0 ? 'Nothing runs there.' : count === 1 ? 'The one message that runs there is finished.' : `The ${count} messages that run there are finished.`}`, done: (name) => `${name} claims nothing more.` },
  wake: { label: 'Wake', done: (name) => `${name} claims again.` },
  totals: { processes: 'Processes', slots: 'Slots', running: 'Running', memory: 'Memory' },
};

export const storage = {
  title: 'Storage', about: 'Where messages and jobs are remembered, how it is, and how much it holds.', kind: 'Kind', findings: 'What is wrong or odd', well: 'All is well.', facts: 'Facts', counts: 'Messages', check: 'Check everything in it', checked: 'Everything in it was checked', glance: 'How it stands was looked at, not everything in it.', states: { pending: 'Pending', running: 'Running', done: 'Done', dead: 'Dead', cancelled: 'Cancelled' }, doctor: 'The same, with the way to fix it',
};

export const audit = {
  title: 'Audit', about: 'Who changed what, when and why. Entries are never edited.', none: 'Nobody has changed anything yet.', noMatch: 'No entry matches.', who: 'Who', what: 'What, such as job.pause', target: 'Target',
  columns: { at: 'When', who: 'Who', what: 'What', target: 'Target', change: 'Change', reason: 'Reason', from: 'From' }, nothing: 'nothing', more: (count) => `${count} more`, details: 'Details', before: 'Before', after: 'After', path: 'What', identity: 'Identity', dialog: (what, target) => `${what} ${target}`, noChange: 'No values were recorded.', clear: 'Clear',
};
