// Texts of the filter language: what each key means, and what is wrong with a filter.

export const filter = {
  about: {
    state: 'where it stands: pending, running, done, dead, cancelled',
    phase: 'the same as people see it: scheduled, ready, retrying, stale …',
    topic: 'the name that finds its handler',
    queue: 'the line it waits in',
    key: 'what it is about',
    job: 'the job it is a run of',
    batch: 'the batch it belongs to',
    error: 'words of its last failure',
    attempt: 'attempts spent, such as attempt>3',
    age: 'how long ago it was made, such as age>5m',
    since: 'made at this time or later: an instant, or a length before now',
    until: 'made before this time: an instant, or a length before now',
    payload: 'a value of its content, such as payload.user.id:42',
    ending: 'how the attempt ended',
    message: 'the id of the message',
  },
  problem: {
    key: (key, known) => `There is no “${key}”; known are ${known}.`,
    words: (value, known) => `“${value}” stands alone; write one of ${known} before it.`,
    empty: (key) => `“${key}” needs a value.`,
    word: (key, value, known) => `“${value}” is no ${key}; it is one of ${known}.`,
    twice: (key) => `“${key}” can be given once.`,
    operator: (key, known) => `After “${key}” comes one of ${known}`,
    number: (value) => `“${value}” is no number.`,
    length: (value) => `“${value}” is no length; write one such as 30s, 5m, 2h or 7d.`,
    instant: (value) => `“${value}” is no time; write one such as 2026-03-01T12:00, or a length such as 2h.`,
    path: 'A content needs a path, such as payload.user.id:42.',
    quote: 'The quotation mark is not closed.',
  },
};
