// Texts of batches.

export const batches = {
  title: 'Batches',
  about: 'Messages that were published together, with the progress of each batch.',
  none: {
    title: 'No batches',
    text:
      'Code creates batches with `publisher.batch(..)`; a message that waits for a batch is sent when all its ' +
      'messages have ended.',
  },
  columns: {
    id: 'Batch',
    progress: 'Progress',
    done: 'Done',
    dead: 'Dead',
    running: 'Running',
    pending: 'Pending',
    total: 'Total',
    created: 'Created',
  },
  states: { done: 'done', dead: 'dead', cancelled: 'cancelled', running: 'running', pending: 'pending' },
  finished: 'finished',
  cancel: 'Cancel',
  crumb: 'Batches',
  all: 'Open in Messages',
  messages: 'Messages',
  noMessages: 'Its messages have been deleted; only the counts remain.',
  failed: 'Dead letters',
  confirm: {
    title: 'Cancel the batch',
    text: (count) =>
      `${count} ${count === 1 ? 'message has' : 'messages have'} not ended. Pending messages are cancelled; ` +
      'running ones are asked to stop.',
    button: (count) => `Cancel ${count} ${count === 1 ? 'message' : 'messages'}`,
    done: 'The batch is being cancelled.',
  },
  label: (done, total) => `${done} of ${total} ended`,
  made: 'Created',
  columnsOf: { topic: 'Message', state: 'State', attempt: 'Attempt', due: 'Due', error: 'Error' },
};
