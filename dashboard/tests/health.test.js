// Tests of the health state: red on failure, grey when the response is old, green only when the server reports it now.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { STALE_AFTER, healthOf } from '../lib/health.js';
import { overview } from '../texts/overview.js';
import { job } from '../texts/job.js';

const fine = { data: { condition: 'healthy' }, error: null };

test('healthy needs a current response', () => {
  assert.equal(healthOf(fine, 0), 'healthy');
  assert.equal(healthOf(fine, STALE_AFTER), 'healthy');
  assert.equal(healthOf(fine, STALE_AFTER + 1), 'unknown');
  assert.equal(healthOf({ data: null, error: null }, null), 'unknown');
});

test('an error status means unhealthy immediately, a missing response means unknown after a while', () => {
  assert.equal(healthOf({ ...fine, error: { status: 503 } }, 1_000), 'unhealthy');
  assert.equal(healthOf({ ...fine, error: { status: 0 } }, 1_000), 'healthy');
  assert.equal(healthOf({ ...fine, error: { status: 0 } }, STALE_AFTER + 1), 'unknown');
  assert.equal(healthOf({ data: { condition: 'unhealthy' }, error: null }, 0), 'unhealthy');
});

test('singular and plural texts', () => {
  assert.equal(job.why.failing(1), 'The last run failed.');
  assert.equal(job.why.failing(2), 'The last 2 runs failed.');
  assert.equal(overview.failing.count('3', false), '3');
  assert.equal(overview.failing.count('200', true), '200 or more');
  assert.equal(overview.failing.runs(1, false), 'last run');
  assert.equal(overview.failing.runs(30, true), '30+ in a row');
  assert.equal(job.remove.waiting.some('1', 1, false), '1 waiting message');
  assert.equal(job.remove.waiting.some('1,000', 1000, true), 'at least 1,000 waiting messages');
});
