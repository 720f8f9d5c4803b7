// Tests of planned one-time jobs: where they are listed, the parameters of the list, and which have buttons.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { listParameters, plannedPage } from '../pages/jobs/planned.js';
import { isPlanned } from '../pages/message/planned.js';

// spec: T-75
test('a redriven one-time job keeps its buttons, a redriven run of a job has none', () => {
  const redriven = { source: 'redriven', job: 'remind', state: 'pending' };
  assert.ok(isPlanned({ ...redriven, planned: true }));
  assert.ok(!isPlanned({ ...redriven, planned: false }));
  assert.ok(!isPlanned({ ...redriven, planned: true, state: 'running' }));
});

// spec: T-75
test('the list contains all pending and running one-time jobs of every name', () => {
  assert.deepEqual(listParameters({ view: 'planned' }), {
    planned: true,
    state: 'pending,running',
    search: undefined,
    after: undefined,
  });
  assert.deepEqual(listParameters({ view: 'planned', search: 'order-7', after: 'x', phase: 'paused' }), {
    planned: true,
    state: 'pending,running',
    search: 'order-7',
    after: 'x',
  });
  assert.equal(plannedPage(), '#/jobs?view=planned');
  assert.equal(plannedPage('a b'), '#/jobs?view=planned&search=a+b');
});
