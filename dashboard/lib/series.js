// Time series: a range is loaded once, then only newer values, which are appended.

import { useRef } from './html.js';
import { get } from './api.js';
import { useLoad } from './live.js';

/** Length and resolution of each range. */
export const RANGES = {
  '10m': { seconds: 600, step: '1s', stepSeconds: 1 },
  '6h': { seconds: 21_600, step: '10s', stepSeconds: 10 },
  '7d': { seconds: 604_800, step: '1m', stepSeconds: 60 },
  '1y': { seconds: 31_536_000, step: '1h', stepSeconds: 3_600 },
};

/** Shortest interval between two loads, in milliseconds. */
const EVERY_MIN = 2_000;
/** Largest number of columns of a heat map; with more, the counts are too small to be visible. */
const COLUMNS_MAX = 100;

/** Appends `fresh` to `old`, replacing what both contain, and drops values before `since`. */
export function mergeSeries(old, fresh, since) {
  if (fresh.times.length === 0) return old;
  const begin = old.times.findIndex((time) => time >= since);
  const end = old.times.findIndex((time) => time >= fresh.times[0]);
  const keep = (values, blank) => {
    const kept =
      begin < 0 ? [] : (values ?? old.times.map(() => blank)).slice(begin, end < 0 ? undefined : Math.max(begin, end));
    return kept;
  };
  const names = [...new Set([...old.series, ...fresh.series].map((one) => one.name))];
  const of = (list, name) => list.find((one) => one.name === name)?.values;
  const joined = {
    ...fresh,
    times: [...keep(old.times), ...fresh.times],
    series: names.map((name) => ({
      name,
      values: [...keep(of(old.series, name), null), ...(of(fresh.series, name) ?? fresh.times.map(() => null))],
    })),
  };
  if (fresh.values) joined.values = [...keep(old.values, []), ...fresh.values];
  return joined;
}

/** Adds up neighbouring columns of a heat map until at most `COLUMNS_MAX` are left. */
export function mergeColumns(times, values) {
  const every = Math.ceil(times.length / COLUMNS_MAX);
  if (every <= 1) return { times, values };
  const starts = times.filter((_, at) => at % every === 0);
  const sums = starts.map((_, column) =>
    values
      .slice(column * every, (column + 1) * every)
      .reduce((sum, one) => one.map((count, bucket) => count + (sum[bucket] ?? 0)), []),
  );
  return { times: starts, values: sums };
}

/** Moving average over the last values; the first ones get the average of the first window. It smooths bursts. */
export function movingAverage(values, over) {
  const few = Math.min(over, values.length);
  let sum = values.slice(0, few).reduce((total, value) => total + (value ?? 0), 0);
  return values.map((value, at) => {
    if (at >= few) sum += (value ?? 0) - (values[at - few] ?? 0);
    return value === null || value === undefined ? value : sum / few;
  });
}

/** Loads a time series. `isVisible` avoids requests while the chart is off screen. */
export function useSeries(name, rangeId, isVisible) {
  const range = RANGES[rangeId];
  const key = `${name} ${rangeId}`;
  const cache = useRef({ key: null, data: null });
  const load = async (signal) => {
    const old = cache.current.key === key ? cache.current.data : null;
    if (old && !isVisible()) return old;
    const now = Math.floor(Date.now() / 1_000);
    const since = now - range.seconds;
    const from = old?.times.length ? Math.max(since, old.times[old.times.length - 1] - range.stepSeconds) : since;
    const fresh = await get(
      '/series',
      { name, step: range.step, from: new Date(from * 1_000).toISOString(), to: new Date(now * 1_000).toISOString() },
      { signal },
    );
    const data = old ? mergeSeries(old, fresh, since) : fresh;
    cache.current = { key, data };
    return data;
  };
  return useLoad(load, key, { poll: true, every: Math.max(EVERY_MIN, range.stepSeconds * 1_000) });
}
