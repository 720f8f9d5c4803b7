// Tests of actions for many, and of rows that no longer belong to a list: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import { bounded, each, walked } from '../lib/sweep.js';
import { leftOf } from '../lib/rows.js';

const all = async (steps) => { const parts = []; for await (const part of steps) parts.push(part); return parts; };

test('a bounded call is repeated until there is no more', async () => {
  let left = 3;
  const parts = await all(bounded(async () => { left -= 1; return { applied: 1, more: left > 0 }; }));
  assert.equal(parts.length, 3);
});

test('a round that does nothing ends it, and it is said', async () => {
  const parts = await all(bounded(async () => ({ applied: 0, requested: 5, more: true })));
  assert.deepEqual(parts.at(-1), { unreached: true });
  assert.equal(parts.length, 2);
});

test('what may still match is walked through, behind where the last call ended', async () => {
  const asked = [];
  const parts = await all(walked(async (after) => { asked.push(after); return { applied: 1, next: asked.length < 3 ? `id-${asked.length}` : null }; }));
  assert.deepEqual(asked, [null, 'id-1', 'id-2']);
  assert.equal(parts.length, 3);
});

test('each is called once; what is refused is counted and what is broken is thrown', async () => {
  const called = [];
  const call = async (id) => { called.push(id); if (id === 3) throw Object.assign(new Error('no'), { status: 409 }); return { result: id === 2 ? 'requested' : 'applied' }; };
  const parts = await all(each([1, 2, 3, 4, 5], call));
  assert.deepEqual(called, [1, 2, 3, 4, 5]);
  assert.deepEqual(parts, [{ applied: 2, requested: 1, refused: 1 }, { applied: 1, requested: 0, refused: 0 }]);
  await assert.rejects(all(each([1], async () => { throw Object.assign(new Error('gone'), { status: 500 }); })));
});

test('a row that left stands among fresh ones; one behind them is not judged', () => {
  const rows = (...ids) => ids.map((id) => ({ id }));
  const id = (row) => row.id;
  assert.deepEqual([...leftOf(rows('d', 'c', 'b', 'a'), rows('e', 'd', 'b'), id)], ['c']);
  assert.deepEqual([...leftOf(rows('c', 'b', 'a'), rows('c'), id, true)], ['b', 'a']);
});
