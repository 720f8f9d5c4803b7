// Texts of batches.

export const batches = {
  title: 'Batches', about: 'Messages that were published together, and how far each batch is.',
  none: { title: 'No batches', text: 'Batches are made by code, with `publisher.batch(..)`; what waits for one is sent when all of them ended.' },
  columns: { id: 'Batch', progress: 'Progress', done: 'Done', dead: 'Dead', running: 'Running', pending: 'Pending', total: 'Total', created: 'Made' },
  states: { done: 'done', dead: 'dead', cancelled: 'cancelled', running: 'running', pending: 'pending' },
  finished: 'finished', cancel: 'Cancel', crumb: 'Batches', all: 'open in Messages', messages: 'Messages', noMessages: 'Its messages are gone; only the numbers are kept.', failed: 'Its dead letters',
  confirm: { title: 'Cancel the batch', text: (count) => `${count} ${count === 1 ? 'message has' : 'messages have'} not ended. Those that wait are cancelled; those that run are asked to stop.`, button: (count) => `Cancel ${count} ${count === 1 ? 'message' : 'messages'}` , done: 'The batch is being cancelled.' },
  label: (done, total) => `${done} of ${total} ended`, made: 'Made', columnsOf: { topic: 'Message', state: 'State', attempt: 'Attempt', due: 'Due', error: 'Error' },
};
