// Tests of live lists and of time series that are extended with newer values.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { appendPage, emptyReason, mergeRows } from '../lib/live_list.js';
import { mergeColumns, mergeSeries, movingAverage } from '../lib/series.js';
import { edgesOf } from '../lib/heat_map.js';

const id = (row) => row.id;

test('rows are updated in place and new ones are counted', () => {
  const shown = [
    { id: 'a', n: 1 },
    { id: 'b', n: 1 },
    { id: 'c', n: 1 },
  ];
  const fresh = [
    { id: 'x', n: 9 },
    { id: 'b', n: 2 },
    { id: 'a', n: 2 },
  ];
  assert.deepEqual(mergeRows(shown, fresh, id), {
    rows: [
      { id: 'a', n: 2 },
      { id: 'b', n: 2 },
      { id: 'c', n: 1 },
    ],
    added: 1,
    removed: 0,
  });
  assert.equal(mergeRows(shown, fresh, id, true).removed, 1);
});

// Regression: with more rows to search, the list showed that nothing matches.
test('a list without rows shows that nothing matches only when every row was searched', () => {
  assert.equal(emptyReason('01jn8v', 'key:ada'), 'soFar');
  assert.equal(emptyReason('01jn8v', ''), 'soFar');
  assert.equal(emptyReason(null, 'key:ada'), 'noMatch');
  assert.equal(emptyReason(null, ''), 'none');
});

test('a row that moved between two pages is shown once', () => {
  assert.deepEqual(appendPage([{ id: 'a' }, { id: 'b' }], [{ id: 'b' }, { id: 'c' }], id).map(id), ['a', 'b', 'c']);
});

const measured = (times, series, values) => ({
  step_ms: 1_000,
  times,
  series: Object.entries(series).map(([name, one]) => ({ name, values: one })),
  ...(values ? { values } : {}),
});

test('newer values replace those they repeat', () => {
  const old = measured([1, 2, 3], { a: [10, 20, 30] });
  assert.deepEqual(mergeSeries(old, measured([3, 4], { a: [33, 40] }), 2), measured([2, 3, 4], { a: [20, 33, 40] }));
});

test('without newer values the series stays the same', () => {
  const old = measured([1, 2], { a: [1, 2] });
  assert.equal(mergeSeries(old, measured([], {}), 0), old);
});

test('a gap longer than the range starts a new series', () => {
  assert.deepEqual(
    mergeSeries(measured([1, 2], { a: [1, 2] }), measured([90, 91], { a: [9, 9] }), 80),
    measured([90, 91], { a: [9, 9] }),
  );
});

test('a line that starts or ends has no values elsewhere', () => {
  const joined = mergeSeries(measured([1, 2], { a: [1, 2] }), measured([3], { b: [3] }), 0);
  assert.deepEqual(joined.series, [
    { name: 'a', values: [1, 2, null] },
    { name: 'b', values: [null, null, 3] },
  ]);
});

test('the columns of a heat map are merged as well', () => {
  const joined = mergeSeries(
    measured([1, 2], { a: [1, 2] }, [[1], [2]]),
    measured([2, 3], { a: [2, 3] }, [[5], [6]]),
    0,
  );
  assert.deepEqual(joined.values, [[1], [5], [6]]);
});

test('too many columns are added up', () => {
  const times = Array.from({ length: 1_000 }, (_, at) => at);
  const { times: starts, values } = mergeColumns(
    times,
    times.map(() => [1, 2]),
  );
  assert.equal(starts.length, values.length);
  assert.ok(starts.length <= 100);
  assert.deepEqual(values[0], [10, 20]);
  assert.equal(
    values.flat().reduce((sum, count) => sum + count, 0),
    3_000,
  );
});

test('values beyond the last bound have a bucket', () => {
  assert.deepEqual(edgesOf([1, 10], [[1, 2]]), [0.5, 1, 10]);
  assert.deepEqual(edgesOf([1, 10], [[1, 2, 3]]), [0.5, 1, 10, 20]);
});

test('a moving average keeps missing values', () => {
  assert.deepEqual(movingAverage([4, 0, 0, 4, null, 8], 2), [2, 2, 0, 2, null, 4]);
});
