// Where things are shown, so that every page links to the same place.

import { to } from './route.js';

export const jobPage = (name, query) => to(['jobs', name], query);
export const messagePage = (id) => to(['messages', id]);
export const queuePage = (name) => to(['queues', name]);
export const batchPage = (id) => to(['batches', id]);

const filter = (terms) => Object.entries(terms).filter(([, value]) => value).map(([key, value]) => `${key}:${/\s/.test(value) ? JSON.stringify(value) : value}`).join(' ');
/** Messages by the filter language: `messagesWith({ state: 'dead', topic })`. */
export const messagesWith = (terms) => to(['messages'], { q: filter(terms) });
/** Executions by the same. */
export const executionsWith = (terms) => to(['messages', 'executions'], { q: filter(terms) });
