// What the dialog says that is deleted together with a job. Its dead letters were left out.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { amount } from '../pages/job/steer.js';
import { job } from '../texts/job.js';

const { remove } = job;
const found = (number, next = null) => ({ data: { items: Array(number).fill({}), next } });

test('the waiting messages and the dead letters of a job are said before it is deleted', () => {
  const said = remove.text('nightly', amount(found(0), remove.waiting), amount(found(2), remove.dead));
  assert.match(said, /^Deletes the job nightly, its whole history, no waiting messages and 2 dead letters\./);
  assert.equal(amount(found(1_000, 'after'), remove.dead), 'at least 1,000 dead letters');
  assert.equal(amount({ error: new Error('away') }, remove.dead), 'all dead letters');
});
