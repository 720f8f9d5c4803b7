// Links to pages, in one place so that every page uses the same address.

import { to } from './route.js';

export const jobPage = (name, query) => to(['jobs', name], query);
export const messagePage = (id) => to(['messages', id]);
export const queuePage = (name) => to(['queues', name]);
export const batchPage = (id) => to(['batches', id]);

const filter = (terms) =>
  Object.entries(terms)
    .filter(([, value]) => value)
    .map(([key, value]) => `${key}:${/\s/.test(value) ? JSON.stringify(value) : value}`)
    .join(' ');
/** Link to the messages that match: `messagesWith({ state: 'dead', topic })`. */
export const messagesWith = (terms) => to(['messages'], { q: filter(terms) });
/** Link to the executions that match. */
export const executionsWith = (terms) => to(['messages', 'executions'], { q: filter(terms) });
