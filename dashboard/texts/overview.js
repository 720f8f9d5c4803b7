// Texts of the overview.

export const overview = {
  title: 'Overview',
  about: 'Is everything on time, and if not, what holds it up?',
  range: 'Range of the charts',
  ranges: { '10m': '10 min', '6h': '6 h', '7d': '7 days', '1y': '1 year' },
  condition: { healthy: 'Everything is on time', degraded: 'Something needs attention', unhealthy: 'Something is broken', unknown: 'Health is not known' },
  fine: 'No job is late or fails, no queue waits, and the storage answers.',
  unknown: (time, age) => `The last answer is from ${time}, ${age} ago.`, never: 'The server has not answered yet.', failed: 'The server could not say how it is',
  old: (age) => `The lists and numbers below are ${age} old.`,
  facts: { tick: 'scheduler looked', storage: 'storage answers in', stale: (count) => `${count} stuck ${count === 1 ? 'message' : 'messages'}` },
  tiles: {
    late: 'Late jobs', onTime: 'none', pending: 'Pending', ready: (count) => `${count} due now`, running: 'Running', out: 'Done', in: (rate) => `${rate}/s come in`, failed: 'Failed', rate: (rate) => `${rate}/s`,
    dead: 'Dead letters', workers: 'Processes', noWorker: 'nothing runs without one', oldest: 'Oldest due', oldestNote: 'past its time',
  },
  charts: {
    throughput: 'Throughput by outcome', wait: 'Waiting time', waitNote: 'from due to started', run: 'Running time', runNote: 'from started to ended',
    queue_age: 'Age of the oldest due message', concurrency: 'Running against the limit', retries: 'Retries', dead: 'Dead letters', outbox: 'Waiting for a transport',
    hint: 'Drag over a chart to see what happened then.', none: 'Nothing was measured in this range yet.',
    label: (title, values) => `${title}. ${values}`,
  },
  brushed: {
    title: 'In the chosen range', messages: 'messages', executions: 'all executions', clear: 'Clear the range', none: 'Nothing ended in this range.',
    columns: { what: 'What', ended: 'Ended', took: 'Took', waited: 'Waited', ending: 'Ending', note: 'Note' },
  },
  failing: { title: 'Failing jobs', none: 'No job fails.', count: (count, more) => `${count}${more ? ' or more' : ''}`, runs: (count, more) => (count === 1 && !more ? 'last run' : `${count}${more ? '+' : ''} in a row`), since: 'since', all: 'all jobs', noError: 'no error text' },
  late: { title: 'Late jobs', none: 'Every job is on time.', due: 'was due' },
  problems: { title: 'Queues with a problem', none: 'No queue waits.', paused: (by) => `paused by ${by}`, oldest: 'oldest', due: (count) => `${count} due`, waiting: (count) => `${count} waiting`, noWorker: 'no worker' },
  running: { title: 'Running now', none: 'Nothing is running.', all: 'all', columns: { what: 'What', since: 'Lease', progress: 'Progress' } },
  next: { title: 'Next runs', none: 'No job is planned.', calendar: 'calendar' },
  dead: { title: 'Dead letters by error', none: 'No dead letters.', all: 'all groups' },
  marks: { title: 'Deploys and pauses', none: 'Nothing was deployed or paused lately.' },
  welcome: {
    title: 'Nothing is planned yet',
    text: 'Create a job that calls a URL or runs a program, or publish a test message, which this server handles itself. Both show here as they happen.',
    textAlone: 'Create a job. Its runs show here as they happen.',
    job: 'New job',
  },
};
