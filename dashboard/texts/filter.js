// Texts of the filter language: the meaning of each key, and problems of a filter.

export const filter = {
  about: {
    state: 'stored state: pending, running, done, dead, cancelled',
    phase: 'state at this moment: scheduled, ready, retrying, stale …',
    topic: 'the name that selects its handler',
    queue: 'the name of its queue',
    key: 'its key, such as a customer id',
    job: 'the job it is a run of',
    batch: 'the batch it belongs to',
    error: 'words of its last error',
    attempt: 'number of attempts, such as attempt>3',
    age: 'time since creation, such as age>5m',
    since: 'created at this time or later: a time, or a duration before now',
    until: 'created before this time: a time, or a duration before now',
    payload: 'a value in its payload, such as payload.user.id:42',
    ending: 'how the attempt ended',
    message: 'the id of the message',
  },
  problem: {
    key: (key, known) => `Unknown key “${key}”; use one of ${known}.`,
    words: (value, known) => `“${value}” has no key; write one of ${known} before it.`,
    empty: (key) => `“${key}” needs a value.`,
    word: (key, value, known) => `“${value}” is not a ${key}; use one of ${known}.`,
    twice: (key) => `“${key}” can be used only once.`,
    operator: (key, known) => `After “${key}”, use one of ${known}`,
    number: (value) => `“${value}” is not a number.`,
    duration: (value) => `“${value}” is not a duration; use one such as 30s, 5m, 2h or 7d.`,
    instant: (value) => `“${value}” is not a time; use one such as 2026-03-01T12:00, or a duration such as 2h.`,
    path: 'A payload filter needs a path, such as payload.user.id:42.',
    quote: 'The quotation mark is not closed.',
  },
};
