// Chart panel of the overview: loads a time series, draws it as lines, areas or a heat map, and describes it in text.

import { html, useEffect, useRef } from '../../lib/html.js';
import { Chart, HeatMap } from '../../lib/chart.js';
import { RANGES, movingAverage, mergeColumns, useSeries } from '../../lib/series.js';
import { Card, Empty, Loaded } from '../../lib/ui.js';
import { overview as text } from '../../texts.js';

const COLOURS = {
  succeeded: 'good',
  failed: 'bad',
  retried: 'warn',
  dead: 'bad',
  enqueued: 'accent',
  published: 'accent',
  yielded: 'idle',
  misfired: 'warn',
  fired: 'good',
  running: 'accent',
  limit: 'mute',
  p50: 'good',
  p95: 'warn',
  p99: 'bad',
  skipped: 'mute',
  snoozed: 'idle',
  cancelled: 'mute',
};
const OTHER_COLOURS = ['accent', 'idle', 'warn', 'good', 'bad', 'mute'];
/** Largest number of distinguishable lines. */
const LINES_MAX = 6;

/** Window of the moving average of rates, in seconds. */
const AVERAGE_SECONDS = 10;

/** Incoming messages are drawn as a line over the stacked outcomes. */
const IN = ['enqueued', 'published'];

/** Returns name, colour and values of each line; limits and incoming messages are dashed. */
function lines(series) {
  return series.slice(0, LINES_MAX).map((one, at) => ({
    label: one.name,
    values: one.values,
    colour: COLOURS[one.name] ?? OTHER_COLOURS[at % OTHER_COLOURS.length],
    apart: IN.includes(one.name),
    dash: one.name === 'limit' || IN.includes(one.name) ? [5, 4] : undefined,
  }));
}

function inWords(title, shown, unit) {
  const values = shown.map(
    (one) =>
      `${one.label}: ${unit ? unit(one.values[one.values.length - 1] ?? 0) : (one.values[one.values.length - 1] ?? 0)}`,
  );
  return text.charts.label(title, values.join(', '));
}

function Lines({ data, title, unit, stacked, range, ...rest }) {
  const isFine = stacked && RANGES[range].stepSeconds === 1;
  const sorted = [...data.series].sort((one, other) => IN.includes(one.name) - IN.includes(other.name));
  const shown = lines(
    isFine ? sorted.map((one) => ({ ...one, values: movingAverage(one.values, AVERAGE_SECONDS) })) : sorted,
  );
  return html`<${Chart}
    key=${range}
    times=${data.times}
    series=${shown}
    stacked=${stacked}
    unit=${unit}
    label=${inWords(title, shown, unit)}
    ...${rest}
  />`;
}

/** Largest measured value. */
const worst = (values) =>
  values.reduce((most, value) => (value === null || value === undefined || value < most ? most : value), null);

function Heat({ data, title, unit, range, ...rest }) {
  const { times, values } = mergeColumns(data.times, data.values);
  const every = Math.ceil(data.times.length / Math.max(1, times.length));
  const shown = lines(data.series).map((one) => ({
    ...one,
    values: times.map((_, at) => worst(one.values.slice(at * every, (at + 1) * every))),
  }));
  return html`<${HeatMap}
    key=${range}
    times=${times}
    buckets=${data.buckets_ms}
    values=${values}
    lines=${shown}
    unit=${unit}
    label=${inWords(title, shown, unit)}
    ...${rest}
  />`;
}

/** A chart. `name` is the name of the time series; `heat` selects a heat map. */
export function Panel({ name, title, note, range, heat = false, ...rest }) {
  const place = useRef(null);
  const visible = useRef(true);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => {
      visible.current = entry.isIntersecting;
    });
    watch.observe(place.current);
    return () => watch.disconnect();
  }, []);
  const loaded = useSeries(name, range, () => visible.current);
  const draw = (data) => {
    if (data.times.length === 0 || data.series.length === 0) return html`<${Empty} title=${text.charts.none} />`;
    return html`<${heat && data.values ? Heat : Lines}
      data=${data}
      title=${title}
      range=${range}
      span=${RANGES[range].seconds}
      ...${rest}
    />`;
  };
  return html`<div ref=${place}>
    <${Card} title=${title} note=${note} class="panel"><${Loaded} of=${loaded} skeleton=${5}>${draw}<//><//>
  </div>`;
}
