// One-time jobs that applications planned: where they are listed, what the list asks for, and which have buttons.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { asked, plannedPage } from '../pages/jobs/planned.js';
import { isPlanned } from '../pages/message/planned.js';

// spec: T-75
test('one that was sent again is steered as before, and a redriven run of a job is not', () => {
  const redriven = { source: 'redriven', job: 'remind', state: 'pending' };
  assert.ok(isPlanned({ ...redriven, planned: true }));
  assert.ok(!isPlanned({ ...redriven, planned: false }));
  assert.ok(!isPlanned({ ...redriven, planned: true, state: 'running' }));
});

// spec: T-75
test('the list is about all that wait or run, of every name', () => {
  assert.deepEqual(asked({ view: 'planned' }), { planned: true, state: 'pending,running', search: undefined, after: undefined });
  assert.deepEqual(asked({ view: 'planned', search: 'order-7', after: 'x', phase: 'paused' }), { planned: true, state: 'pending,running', search: 'order-7', after: 'x' });
  assert.equal(plannedPage(), '#/jobs?view=planned');
  assert.equal(plannedPage('a b'), '#/jobs?view=planned&search=a+b');
});
