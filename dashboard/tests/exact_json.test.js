// Tests of exact JSON and of differences: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import { ExactNumber, reviveExact, stringify } from '../lib/exact_json.js';
import { diffValues, diffWords } from '../lib/difference.js';

test('numbers that JavaScript can hold stay numbers', () => {
  const read = (value, source) => reviveExact('', value, { source });
  assert.equal(read(42, '42'), 42);
  assert.equal(read(1.5, '1.50'), 1.5);
  assert.equal(read(1e21, '1e21'), 1e21);
  assert.equal(read(0, '0.0'), 0);
  assert.equal(read('42'), '42');
});

test('numbers that JavaScript cannot hold keep their digits', () => {
  const kept = reviveExact('', 9007199254740993, { source: '9007199254740993' });
  assert.ok(kept instanceof ExactNumber);
  assert.equal(
    stringify({ id: kept, list: [1, 'a"b', null], none: {} }),
    '{\n  "id": 9007199254740993,\n  "list": [\n    1,\n    "a\\"b",\n    null\n  ],\n  "none": {}\n}',
  );
  assert.equal(stringify({ id: kept }, 0), '{"id":9007199254740993}');
  assert.ok(reviveExact('', 0.1, { source: '0.1000000000000000055' }) instanceof ExactNumber);
});

test('texts differ word by word', () => {
  assert.deepEqual(diffWords('refused by 10.0.0.1 now', 'refused by 10.0.0.2 now'), [
    { kind: 'same', text: 'refused by ' },
    { kind: 'gone', text: '10.0.0.1' },
    { kind: 'new', text: '10.0.0.2' },
    { kind: 'same', text: ' now' },
  ]);
  assert.deepEqual(diffWords('a', 'a'), [{ kind: 'same', text: 'a' }]);
  assert.equal(diffWords('x '.repeat(500), 'y').length, 2);
  assert.deepEqual(
    diffWords('it took too long', 'connection to host refused').map((part) => part.kind),
    ['gone', 'new'],
  );
});

test('values differ path by path', () => {
  assert.deepEqual(diffValues({ a: 1, b: { c: [1, 2] } }, { a: 1, b: { c: [1, 3] }, d: true }), [
    { path: 'b.c.1', before: 2, after: 3 },
    { path: 'd', before: undefined, after: true },
  ]);
  assert.deepEqual(diffValues(null, { a: 1 }), [{ path: 'a', before: undefined, after: 1 }]);
  assert.deepEqual(diffValues({ a: 1 }, null), [{ path: 'a', before: 1, after: undefined }]);
  assert.deepEqual(diffValues('x', { a: 1 }), [{ path: '', before: 'x', after: { a: 1 } }]);
  assert.deepEqual(diffValues(1, 1), []);
});
