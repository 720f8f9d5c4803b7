// Fields of bulk actions that change pending messages, with their API body and CLI options. `first` returns the initial
// value; it receives the message when the action is about one.

import { AssignFields, assignmentOf, cliOptions as assignLine, initialAssignment } from './assign.js';
import { DueFields, dueOf, cliOptions as dueLine } from './due.js';

export const CHANGES = {
  reschedule: { first: () => ({ mode: 'in', delay: '5m', at: '' }), Fields: DueFields, body: dueOf, line: dueLine },
  reassign: { first: initialAssignment, Fields: AssignFields, body: assignmentOf, line: assignLine },
};
