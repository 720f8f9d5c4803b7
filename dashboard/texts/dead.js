// Texts of the dead letters.

import { plural } from './plural.js';

export const dead = {
  title: 'Dead letters',
  about: 'Messages that failed and are not retried, grouped by failure.',
  none: 'No dead letters.',
  noneText: 'A message that fails is retried until its attempts are used up; then it is stored here.',
  noMatch: 'No group matches.',
  all: 'All topics',
  topic: 'Topic',
  search: 'Search failures',
  columns: {
    error: 'Failure',
    reason: 'Reason',
    count: 'Count',
    trend: 'Last 24 hours',
    seen: 'Last seen',
    first: 'First seen',
    actions: 'Actions',
  },
  noError: 'no error text',
  perHour: (sum) => `${sum} dead letters in the last 24 hours`,
  limited: (count) => `Only the newest ${count} dead letters are grouped; there are more.`,
  groups: (groups, letters) =>
    `${groups} ${groups === '1' ? 'group' : 'groups'}, ${letters} dead ${letters === '1' ? 'letter' : 'letters'}`,
  messages: 'Open in Messages',
  redrive: {
    label: 'Redrive',
    group: 'Redrive group',
    title: 'Redrive this group',
    ask: (count, number) =>
      `This sends ${plural(count, number, 'dead letter')} again immediately. ${number === 1 ? 'Its' : 'Their'} ` +
      'attempts are counted from zero.',
    verb: 'sent again',
    note: 'Note',
    noteHint: 'Reason for the audit trail.',
  },
  sample: {
    label: 'Redrive one',
    title: 'Redrive one message as a sample',
    text: 'Only the newest message of the group is sent again, to check whether the cause is fixed. Its page opens.',
    done: 'The sample was sent.',
  },
  discard: {
    label: 'Discard',
    group: 'Discard group',
    title: 'Discard this group',
    ask: (count, number) =>
      `This deletes ${plural(count, number, 'dead letter')} with the content. This cannot be undone.`,
    verb: 'discarded',
    note: 'Note',
    noteHint: 'Reason for the audit trail.',
  },
  group: {
    crumb: 'Dead letters',
    notFound: 'This group no longer exists.',
    notFoundText: 'Its dead letters were redriven or discarded.',
    facts: 'Group',
    trend: 'Dead letters per hour, last 24 hours',
    list: 'Dead letters of this group',
    topic: 'Topic',
    job: 'Job',
    count: 'Count',
    reason: 'Reason',
    first: 'First seen',
    last: 'Last seen',
    fingerprint: 'Fingerprint',
    sample: 'Newest message',
    hour: (ago) => (ago === 0 ? 'this hour' : `${ago} h ago`),
  },
  letters: {
    message: 'Message',
    ended: 'Ended',
    attempt: 'Attempts',
    key: 'Key',
    queue: 'Queue',
    error: 'Failure',
    made: 'Created',
  },
};
