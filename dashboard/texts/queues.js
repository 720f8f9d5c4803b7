// Texts of the list of queues and of the page of a queue.

import { some } from './words.js';

export const queues = {
  title: 'Queues', about: 'The lines in which messages wait: how long, how fast they move, and what holds them.',
  none: 'There is no queue yet.', noneText: 'A queue appears with its first message, or when a worker begins to serve it.',
  columns: { name: 'Queue', waiting: 'Waiting', oldest: 'Oldest due', use: 'In use', rate: 'In and out', spark: 'Last hour', dead: 'Dead', actions: 'Actions' },
  ready: (count) => `${count} ready`, scheduled: (count) => `${count} later`, waiting: (count) => `${count} waiting`, line: 'line of a transport', noAge: 'nothing is due', perSecond: (value) => `${value}/s`, inRate: 'in', outRate: 'out', spark: (sum) => `${sum} attempts ended in the last hour`,
  use: (running, slots) => `${running} of ${slots}`, noWorker: 'no worker', useLabel: (running, slots) => `${running} of ${slots} slots in use`,
  paused: 'paused', pausedBy: (by) => `Paused by ${by}`, until: 'until', forever: 'until somebody resumes it', since: 'since',
  act: { pause: 'Pause', resume: 'Resume', resumed: (name) => `${name} goes on.`, concurrency: 'Set concurrency', purge: 'Purge', messages: 'Messages' },
  pause: { title: (name) => `Pause ${name}`, about: 'No process takes anything from it any more. What runs goes on, and messages wait.', reason: 'Reason', reasonHint: 'Everybody who looks sees it.', until: 'Until', untils: { '': 'somebody resumes it', '1h': 'in one hour', '8h': 'in eight hours', '24h': 'in a day', own: 'a time' }, own: 'Goes on by itself at', button: 'Pause', done: (name) => `${name} is paused.` },
  concurrency: { title: (name) => `How many at once in ${name}`, about: 'It holds for every process that serves the queue, each by itself.', max: 'At most at once', hint: '1 to 10,000. Pause the queue to stop it.', button: 'Set', done: (max) => `Each process handles ${max} at once now.` },
  purge: { title: (name) => `Purge ${name}`, ask: (count, number) => `This deletes ${some(count, number, 'message')} in wait, due now or later. What runs goes on. It cannot be undone.`, verb: 'deleted', button: 'Delete', type: (name) => `Write ${name} to confirm`, reason: 'Reason' },
  detail: {
    ready: 'Ready', scheduled: 'Scheduled', waiting: 'Waiting', running: 'Running', dead: 'Dead', oldest: 'Oldest due', in: 'In', out: 'Out', keys: 'Keys', keysNote: 'those with the most messages', noKeys: 'No message that waits or runs has a key.', key: 'Key', pending: 'Waiting', runningHere: 'Running',
    workers: 'Processes that serve it', noWorkers: 'No process that is known serves this queue; what is due waits until one does.', process: 'Process', slots: 'Slots', age: 'Age of the oldest due message', rate: 'Attempts ended per minute, last hour', limits: 'Limits', here: 'At once, in this process', notHere: 'this process does not serve it', total: 'Slots of all processes',
  },
};
