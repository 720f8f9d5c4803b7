// Texts of workers, storage and the audit trail.

export const workers = {
  title: 'Workers',
  about: 'Processes that schedule, relay and handle messages, with their load.',
  none: 'No processes.',
  noneText: 'Start one with punctual serve, embed the library, or claim messages over HTTP.',
  columns: {
    name: 'Process',
    state: 'State',
    roles: 'Roles',
    queues: 'Queues',
    memory: 'Memory',
    started: 'Uptime',
    seen: 'Last seen',
    actions: 'Actions',
  },
  kinds: { server: 'server', http: 'over HTTP', embedded: 'embedded' },
  states: { works: 'working', quiet: 'quiet', stopping: 'stopping', late: 'no heartbeat', idle: 'idle' },
  running: (count) => `${count} running`,
  here: 'serves this page',
  topics: (count) => (count === 1 ? '1 topic' : `${count} topics`),
  quiet: {
    label: 'Quiet',
    title: (name) => `Quiet ${name}?`,
    text: (count) =>
      'It claims no more messages. ' +
      (count === 0 ? 'No message is running.' : `Running messages are finished: ${count}.`),
    done: (name) => `${name} is quiet.`,
  },
  wake: { label: 'Wake', done: (name) => `${name} claims messages again.` },
  totals: { processes: 'Processes', slots: 'Slots', running: 'Running', memory: 'Memory' },
};

export const storage = {
  title: 'Storage',
  about: 'State and content of the storage of messages and jobs.',
  kind: 'Kind',
  findings: 'Findings',
  noFindings: 'No problems found.',
  facts: 'Facts',
  counts: 'Messages',
  check: 'Run full check',
  checked: 'Full check completed',
  quickCheckOnly: 'Quick check only; the data itself was not checked.',
  states: { pending: 'Pending', running: 'Running', done: 'Done', dead: 'Dead', cancelled: 'Cancelled' },
  doctor: 'The same on the command line, with remedies',
};

export const audit = {
  title: 'Audit',
  about: 'Who changed what, when and why. Entries are never edited.',
  none: 'No changes yet.',
  noMatch: 'No entry matches.',
  who: 'User',
  what: 'Action, such as job.pause',
  target: 'Target',
  columns: {
    at: 'Time',
    who: 'User',
    what: 'Action',
    target: 'Target',
    change: 'Change',
    reason: 'Reason',
    from: 'Source',
  },
  nothing: 'nothing',
  more: (count) => `${count} more`,
  details: 'Details',
  before: 'Before',
  after: 'After',
  path: 'Field',
  identity: 'Identity',
  dialog: (what, target) => `${what} ${target}`,
  noChange: 'No values were recorded.',
  clear: 'Clear',
};
