// Texts of the list of messages, of executions and of the dialog that sends one.

import { some } from './words.js';

export const messages = {
  title: 'Messages',
  about: 'Every unit of work: what waits, runs, is done or was given up.',
  send: 'New message',
  tabs: { all: 'All', pending: 'Pending', running: 'Running', dead: 'Dead', done: 'Done', cancelled: 'Cancelled', executions: 'Executions' },
  statesLabel: 'States',
  bar: {
    label: 'Filter', placeholder: 'Filter: state:dead topic:send-email attempt>3 age>5m, or any words', suggestions: 'Suggestions', clear: 'Clear', apply: 'Apply', keys: 'Enter applies, Tab takes a suggestion.',
  },
  views: {
    label: 'Views', none: 'No view is kept yet.', save: 'Keep this filter', saved: (name) => `“${name}” is kept.`, remove: (name) => `Forget ${name}`, removed: (name) => `“${name}” is forgotten.`, title: 'Keep this filter as a view', name: 'Name', button: 'Keep', yours: 'Only you see it, wherever you sign in.', all: 'no filter',
  },
  columns: { message: 'Message', state: 'State', queue: 'Queue and key', job: 'Job', due: 'When', made: 'Made', attempt: 'Attempt', error: 'Last failure' },
  moment: { due: 'due', running: 'was due', ended: 'ended' },
  shown: (count, total) => `${count} shown${total ? ` of ${total}` : ''}`,
  soFar: 'Nothing found so far.', soFarText: (older) => `Load more to search older ${older}.`, older: 'messages',
  selected: (count) => `${count} selected`,
  allMatching: (count) => `Select all matching${count ? ` (${count})` : ''}`,
  allSelected: (count) => `All ${count ? `${count} ` : ''}that match are selected.`,
  clearSelection: 'Clear',
  none: 'There is no message yet.',
  noneText: 'Messages come from schedules, from your programs, or from the button above.',
  noMatch: 'No message matches.',
  noMatchText: 'The filter leaves nothing; take away a part of it.',
  clearFilter: 'Clear the filter',
  mistaken: 'The filter has a mistake.', mistakenText: 'Nothing is shown until it is understood.',
  attempt: (attempt, most) => (most ? `${attempt} of ${most}` : String(attempt)),
  cancelling: 'asked to stop',
  bulk: {
    redrive: { label: 'Redrive', verb: 'sent again', title: 'Send again', ask: (count, number) => `This sends ${some(count, number, 'message')} again, at once. ${number === 1 ? 'Its' : 'Their'} attempts start anew.` },
    cancel: { label: 'Cancel', verb: 'cancelled', title: 'Cancel', ask: (count, number) => `This cancels ${some(count, number, 'message')}. A handler that runs is asked to stop.` },
    reschedule: { label: 'Reschedule', verb: 'put off', title: 'Make due at another time', ask: (count, number) => `This makes ${some(count, number, 'pending message')} due at another time.` },
    reassign: { label: 'Reassign', verb: 'reassigned', title: 'Change queue or priority', ask: (count, number) => `This changes where ${some(count, number, 'pending message')} ${number === 1 ? 'waits' : 'wait'}, or how urgent ${number === 1 ? 'it is' : 'they are'}.` },
    discard: { label: 'Discard', verb: 'discarded', title: 'Discard dead letters', ask: (count, number) => `This deletes ${some(count, number, 'dead letter')}. It cannot be undone.` },
    reason: 'Reason', reasonHint: 'For the audit trail.',
  },
  assign: { queue: 'Queue', queueHint: 'Empty: stays as it is.', priority: 'Priority', priorityHint: 'Higher is claimed first.', unchanged: 'Stays as it is', levels: { 9: '9, first', 5: '5, usual', 0: '0, last' } },
  due: { label: 'Due', in: 'After', at: 'At', length: 'How long from now', lengthHint: 'Such as 30s, 5m or 2h.', now: 'Now' },
  sending: {
    title: 'New message', cloneTitle: 'Send again with changes', button: 'Send', topic: 'Topic', topicHint: 'The name that finds its handler.', body: 'Content', kinds: { json: 'JSON', text: 'Text', base64: 'Base64', none: 'None' }, kind: 'Content is',
    queue: 'Queue', queueHint: 'Empty: the usual one.', key: 'Key', keyHint: 'What it is about; orders and limits.', priority: 'Priority', priorityHint: '0 is last, 9 is first.', delay: 'Delay', delayHint: 'Such as 5m. Empty: at once.',
    dedupe: 'Only once', dedupeHint: 'While a message with this value lives, another is a duplicate.', retries: 'Retries', timeout: 'Timeout', transport: 'Transport', transportHint: 'Empty: the storage carries it.', headers: 'Headers', headersHint: 'One per line, such as x-tenant: acme.',
    more: 'More', sent: 'The message is sent.', duplicate: 'It was not sent: a message with the same value lives already.', show: 'Show it', badJson: (problem) => `This is no JSON: ${problem}`, badHeader: (line) => `“${line}” is no header; write name: value.`,
    hidden: 'Some values are hidden. Leave the content as it is to send the stored one, or give the values yourself.', holdsHidden: 'It holds a hidden value; give the value itself.', keep: 'The content is the stored one unless you change it.', truncated: 'The content is too long to be shown and edited; the stored one is sent.',
  },
  executions: {
    about: 'Every attempt that ended, newest first.', none: 'Nothing has run yet.', noMatch: 'No attempt matches.', older: 'attempts', placeholder: 'Filter: ending:failed job:nightly since:1h',
    columns: { started: 'Started', ending: 'Ending', what: 'Work', attempt: 'Attempt', waited: 'Waited', took: 'Took', process: 'Process', note: 'Note' }, endings: 'Endings', all: 'All', failed: 'Failed', skipped: 'Skipped', succeeded: 'Succeeded',
  },
};
