// Measurements over time. A range is loaded once; then only what came since, put behind what is there.

import { useRef } from './html.js';
import { get } from './api.js';
import { useLoad } from './live.js';

/** How long a range is and how fine: a step of 1 s for ten minutes up to an hour for a year. */
export const RANGES = {
  '10m': { seconds: 600, step: '1s', stepSeconds: 1 },
  '6h': { seconds: 21_600, step: '10s', stepSeconds: 10 },
  '7d': { seconds: 604_800, step: '1m', stepSeconds: 60 },
  '1y': { seconds: 31_536_000, step: '1h', stepSeconds: 3_600 },
};

/** At most so often, however fine the step. */
const EVERY_MIN = 2_000;
/** With more columns than this each holds too few to have a colour. */
const COLUMNS_MAX = 100;

/** Puts `fresh` behind `old`, in place of what it repeats, and forgets what is before `since`. */
export function join(old, fresh, since) {
  if (fresh.times.length === 0) return old;
  const begin = old.times.findIndex((time) => time >= since);
  const end = old.times.findIndex((time) => time >= fresh.times[0]);
  const keep = (values, blank) => {
    const kept = begin < 0 ? [] : (values ?? old.times.map(() => blank)).slice(begin, end < 0 ? undefined : Math.max(begin, end));
    return kept;
  };
  const names = [...new Set([...old.series, ...fresh.series].map((one) => one.name))];
  const of = (list, name) => list.find((one) => one.name === name)?.values;
  const joined = {
    ...fresh, times: [...keep(old.times), ...fresh.times],
    series: names.map((name) => ({ name, values: [...keep(of(old.series, name), null), ...(of(fresh.series, name) ?? fresh.times.map(() => null))] })),
  };
  if (fresh.values) joined.values = [...keep(old.values, []), ...fresh.values];
  return joined;
}

/** A heat map with at most a hundred columns: neighbours are added up. */
export function coarser(times, values) {
  const every = Math.ceil(times.length / COLUMNS_MAX);
  if (every <= 1) return { times, values };
  const starts = times.filter((_, at) => at % every === 0);
  const sums = starts.map((_, column) => values.slice(column * every, (column + 1) * every).reduce((sum, one) => one.map((count, bucket) => count + (sum[bucket] ?? 0)), []));
  return { times: starts, values: sums };
}

/** Each value as the mean of the last few, the first ones as that of the first few: what comes in bursts is a wall of spikes otherwise. */
export function calmed(values, over) {
  const few = Math.min(over, values.length);
  let sum = values.slice(0, few).reduce((total, value) => total + (value ?? 0), 0);
  return values.map((value, at) => {
    if (at >= few) sum += (value ?? 0) - (values[at - few] ?? 0);
    return value === null || value === undefined ? value : sum / few;
  });
}

/** A measurement over a range. `isSeen` says whether anybody looks; what nobody sees is not asked for. */
export function useSeries(name, rangeId, isSeen) {
  const range = RANGES[rangeId];
  const key = `${name} ${rangeId}`;
  const kept = useRef({ key: null, data: null });
  const load = async (signal) => {
    const old = kept.current.key === key ? kept.current.data : null;
    if (old && !isSeen()) return old;
    const now = Math.floor(Date.now() / 1_000);
    const since = now - range.seconds;
    const from = old?.times.length ? Math.max(since, old.times[old.times.length - 1] - range.stepSeconds) : since;
    const fresh = await get('/series', { name, step: range.step, from: new Date(from * 1_000).toISOString(), to: new Date(now * 1_000).toISOString() }, { signal });
    const data = old ? join(old, fresh, since) : fresh;
    kept.current = { key, data };
    return data;
  };
  return useLoad(load, key, { poll: true, every: Math.max(EVERY_MIN, range.stepSeconds * 1_000) });
}
