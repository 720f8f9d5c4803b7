// Texts of the dead letters.

import { some } from './words.js';

export const dead = {
  title: 'Dead letters', about: 'What was given up and kept for people, in groups of the same failure.',
  none: 'No dead letters.', noneText: 'Nothing was given up. What fails is tried again until its attempts are spent; then it is kept here.',
  noMatch: 'No group matches.', all: 'Every topic', topic: 'Topic', search: 'Words of the failure',
  columns: { error: 'Failure', reason: 'Reason', count: 'Count', trend: 'Last 24 hours', seen: 'Last seen', first: 'First seen', actions: 'Actions' },
  noError: 'nothing was said', perHour: (sum) => `${sum} given up in the last 24 hours`, looked: (count) => `Only the newest ${count} dead letters were looked at; there are more.`,
  groups: (groups, letters) => `${groups} ${groups === '1' ? 'group' : 'groups'}, ${letters} dead ${letters === '1' ? 'letter' : 'letters'}`, messages: 'As messages',
  redrive: { label: 'Redrive', group: 'Redrive group', title: 'Send this group again', ask: (count, number) => `This sends ${some(count, number, 'dead letter')} again, at once. ${number === 1 ? 'Its' : 'Their'} attempts start anew.`, verb: 'sent again', note: 'Note', noteHint: 'Why they are sent again; kept in the audit trail.' },
  sample: { label: 'Try one', title: 'Send one again as a sample', text: 'Only the newest of the group is sent again, to see whether the cause is gone. You are taken to it.', done: 'The sample is on its way.' },
  discard: { label: 'Discard', group: 'Discard group', title: 'Discard this group', ask: (count, number) => `This deletes ${some(count, number, 'dead letter')} with the content. It cannot be undone.`, verb: 'discarded', note: 'Note', noteHint: 'Why they are deleted; kept in the audit trail.' },
  group: { crumb: 'Dead letters', gone: 'There is no such group any more.', goneText: 'Its dead letters were redriven or discarded.', facts: 'Group', trend: 'Given up per hour, last 24 hours', list: 'Dead letters of this group', topic: 'Topic', job: 'Job', count: 'Count', reason: 'Given up because', first: 'First seen', last: 'Last seen', fingerprint: 'Fingerprint', sample: 'The newest', hour: (ago) => (ago === 0 ? 'this hour' : `${ago} h ago`) },
  letters: { message: 'Message', ended: 'Given up', attempt: 'Attempts', key: 'Key', queue: 'Queue', error: 'Failure', made: 'Made' },
};
