// Tests of actions for many, and of rows that no longer belong to a list: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import { untilDone, forEachId, byPages } from '../lib/bulk_action.js';
import { staleIds } from '../lib/live_list.js';

const all = async (steps) => {
  const parts = [];
  for await (const part of steps) parts.push(part);
  return parts;
};

test('a bounded call is repeated until nothing is left', async () => {
  let left = 3;
  const parts = await all(
    untilDone(async () => {
      left -= 1;
      return { applied: 1, more: left > 0 };
    }),
  );
  assert.equal(parts.length, 3);
});

test('a round without any change ends the loop and is reported', async () => {
  const parts = await all(untilDone(async () => ({ applied: 0, requested: 5, more: true })));
  assert.deepEqual(parts.at(-1), { unreached: true });
  assert.equal(parts.length, 2);
});

test('messages that still match are handled page by page', async () => {
  const asked = [];
  const parts = await all(
    byPages(async (after) => {
      asked.push(after);
      return { applied: 1, next: asked.length < 3 ? `id-${asked.length}` : null };
    }),
  );
  assert.deepEqual(asked, [null, 'id-1', 'id-2']);
  assert.equal(parts.length, 3);
});

test('each id is called once; refused calls are counted and other errors are thrown', async () => {
  const called = [];
  const call = async (id) => {
    called.push(id);
    if (id === 3) throw Object.assign(new Error('no'), { status: 409 });
    return { result: id === 2 ? 'requested' : 'applied' };
  };
  const parts = await all(forEachId([1, 2, 3, 4, 5], call));
  assert.deepEqual(called, [1, 2, 3, 4, 5]);
  assert.deepEqual(parts, [
    { applied: 2, requested: 1, refused: 1 },
    { applied: 1, requested: 0, refused: 0 },
  ]);
  await assert.rejects(
    all(
      forEachId([1], async () => {
        throw Object.assign(new Error('gone'), { status: 500 });
      }),
    ),
  );
});

test('a stale row lies within the fresh ones; rows after them are not marked', () => {
  const rows = (...ids) => ids.map((id) => ({ id }));
  const id = (row) => row.id;
  assert.deepEqual([...staleIds(rows('d', 'c', 'b', 'a'), rows('e', 'd', 'b'), id)], ['c']);
  assert.deepEqual([...staleIds(rows('c', 'b', 'a'), rows('c'), id, true)], ['b', 'a']);
});
