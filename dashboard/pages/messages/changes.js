// What can be changed of a message that waits: what is asked, as the API and as the shell have it. `first` is given the
// message when it is about one.

import { AssignFields, assignmentOf, lineOf as assignLine, ofMessage } from './assign.js';
import { DueFields, dueOf, lineOf as dueLine } from './due.js';

export const CHANGES = {
  reschedule: { first: () => ({ way: 'in', length: '5m', at: '' }), Fields: DueFields, body: dueOf, line: dueLine },
  reassign: { first: ofMessage, Fields: AssignFields, body: assignmentOf, line: assignLine },
};
