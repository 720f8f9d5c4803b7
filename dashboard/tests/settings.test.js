// What the page of rules says of the configuration as the server sends it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keptOf, rulesOf } from '../pages/settings/configuration.js';

test('rules are the names and the topics of the section redact', () => {
  assert.deepEqual(rulesOf({ redact: { names: ['password'], topics: ['hr.*'] } }), { names: ['password'], topics: ['hr.*'] });
  assert.deepEqual(rulesOf({}), { names: [], topics: [] });
});

test('what has no length in the configuration is kept as the server keeps it', () => {
  assert.deepEqual(keptOf({ retention: { history: null, audit: null } }).map(([, length]) => length), ['kept for ever', '400 days']);
  assert.deepEqual(keptOf({ retention: { history: '30d', audit: '90d' } }).map(([, length]) => length), ['30d', '90d']);
  assert.deepEqual(keptOf({ redact: { names: [], topics: [] } }), []);
});
