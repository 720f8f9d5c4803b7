// Tests of the dialog that deletes a job: it names the messages that are deleted with it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countText } from '../pages/job/control_dialogs.js';
import { job } from '../texts/job.js';

const { remove } = job;
const found = (number, next = null) => ({ data: { items: Array(number).fill({}), next } });

test('the delete dialog names the waiting messages and the dead letters of a job', () => {
  const text = remove.text('nightly', countText(found(0), remove.waiting), countText(found(2), remove.dead));
  assert.match(text, /^Deletes the job nightly, its whole history, no waiting messages and 2 dead letters\./);
  assert.equal(countText(found(1_000, 'after'), remove.dead), 'at least 1,000 dead letters');
  assert.equal(countText({ error: new Error('away') }, remove.dead), 'all dead letters');
});
