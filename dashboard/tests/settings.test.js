// Tests of the redaction and retention rules that the settings page shows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retentionOf, rulesOf } from '../pages/settings/configuration.js';

test('rules are the names and the topics of the section redact', () => {
  assert.deepEqual(rulesOf({ redact: { names: ['password'], topics: ['hr.*'] } }), {
    names: ['password'],
    topics: ['hr.*'],
  });
  assert.deepEqual(rulesOf({}), { names: [], topics: [] });
});

test('a retention without a value shows the default of the server', () => {
  assert.deepEqual(
    retentionOf({ retention: { history: null, audit: null } }).map(([, value]) => value),
    ['kept forever', '400 days'],
  );
  assert.deepEqual(
    retentionOf({ retention: { history: '30d', audit: '90d' } }).map(([, value]) => value),
    ['30d', '90d'],
  );
  assert.deepEqual(retentionOf({ redact: { names: [], topics: [] } }), []);
});
