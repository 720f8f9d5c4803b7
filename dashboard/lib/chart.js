// Chart component on uPlot: lines, stacked areas and heat maps over time, with vertical marks, in theme colours.
// `onBrush` receives a range selected by dragging; the chart is not updated while the pointer is over it.

import uPlot from '../vendor/uplot.js';
import { html, useEffect, useRef } from './html.js';
import { clock, hour, zone } from './time.js';
import { DURATION_AXIS, drawHeat, edgesOf, heatScale } from './heat_map.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const PERIODS = [
  [86_400, { day: 'numeric', month: 'short' }],
  [60, { hour: '2-digit', minute: '2-digit' }],
  [0, { hour: '2-digit', minute: '2-digit', second: '2-digit' }],
];

/** A theme colour with an alpha channel; the tokens are `#rrggbb`. */
const translucent = (name, share) =>
  `${css(name)}${Math.round(share * 255)
    .toString(16)
    .padStart(2, '0')}`;

function ticks(_, instants, _axis, _space, step) {
  const [, parts] = PERIODS.find(([least]) => step >= least);
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hourCycle: 'h23', ...parts });
  return instants.map((instant) => format.format(new Date(instant * 1_000)));
}

/** Stacks the series, except those marked `apart`. The legend shows the raw values. */
function stack(series) {
  const sum = [];
  return series.map((one) =>
    one.apart
      ? one.values
      : one.values.map((value, at) => {
          sum[at] = (sum[at] ?? 0) + (value ?? 0);
          return sum[at];
        }),
  );
}

const dataOf = (props) => [
  props.times,
  ...(props.stacked ? stack(props.series) : props.series.map((one) => one.values)),
];

function seriesOptions(now) {
  const { series, stacked, unit } = now.current;
  const shown = (value) => (value === null || value === undefined ? '–' : unit ? unit(value) : value);
  return series.map((one, index) => ({
    label: one.label,
    stroke: css(one.colour),
    width: one.width ?? 1.5,
    dash: one.dash,
    points: { show: false },
    fill: (stacked && !one.apart) || one.fill ? translucent(one.colour, stacked ? 0.35 : 0.15) : undefined,
    value: (_, value, _series, at) =>
      shown(at === null || at === undefined ? value : now.current.series[index]?.values[at]),
  }));
}

function drawMarks(plot, marks) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(new Date(mark.at) / 1_000, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = css(mark.kind === 'pause' ? 'warn' : 'idle');
    ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const size = 5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.4);
    ctx.fill();
  }
  ctx.restore();
}

/** Shades the selected range. */
function drawSelection(plot, chosen) {
  if (!chosen) return;
  const { ctx, bbox } = plot;
  const [left, right] = chosen.map((at) =>
    Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(new Date(at) / 1_000, 'x', true))),
  );
  ctx.save();
  ctx.fillStyle = translucent('accent', 0.14);
  ctx.fillRect(left, bbox.top, right - left, bbox.height);
  ctx.restore();
}

/** Shows the text of the mark under the pointer as a tooltip. */
function showMarkTooltip(plot, marks) {
  const near = marks.find((mark) => Math.abs(plot.valToPos(new Date(mark.at) / 1_000, 'x') - plot.cursor.left) < 7);
  plot.over.title = near ? `${near.text} (${clock(near.at)})` : '';
}

function brushed(plot, onBrush) {
  if (!onBrush || plot.select.width < 4) return;
  onBrush(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x'));
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
}

/** Range of the x axis: at least a fifth of `span`, so that a short measurement does not fill the chart. */
const visibleRange = (low, high, span) => [span ? Math.min(low, high - span / 5) : low, high];

/** `1.0 s` is `1 s` on an axis. */
const rounded = (shown) => String(shown).replace(/\.0(?=\s)/, '');

/** Width of the y axis, from its longest label. */
const axisWidth = (_plot, labels) =>
  Math.max(42, 16 + 6.5 * Math.max(0, ...(labels ?? []).map((label) => String(label).length)));

function options(now, width) {
  const { height, stacked, unit, heat } = now.current;
  const grid = { stroke: css('line'), width: 1 };
  const axis = { stroke: css('faint'), grid, ticks: grid, font: '11px system-ui', labelFont: '11px system-ui' };
  const count = now.current.series.filter((one) => !one.apart).length;
  return {
    width,
    height,
    padding: [10, 26, 0, 0],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 }, y: false },
    legend: { live: true },
    bands: stacked ? Array.from({ length: Math.max(0, count - 1) }, (_, at) => ({ series: [at + 2, at + 1] })) : [],
    scales: {
      x: { time: true, range: (_, low, high) => visibleRange(low, high, now.current.span) },
      y: heat ? heatScale(() => now.current.heat) : { range: (_, low, high) => [0, Math.max(1, high * 1.08)] },
    },
    axes: [
      { ...axis, size: 28, space: 54, values: ticks },
      {
        ...axis,
        size: axisWidth,
        values: (_, values) => values.map((value) => (value === null ? '' : unit ? rounded(unit(value)) : value)),
        ...(heat ? DURATION_AXIS : {}),
      },
    ],
    series: [{ value: (_, instant) => (instant ? hour(instant * 1_000) : '–') }, ...seriesOptions(now)],
    hooks: {
      drawClear: [
        (plot) => {
          if (now.current.heat) drawHeat(plot, now.current.times, now.current.heat, css('accent'));
        },
      ],
      draw: [
        (plot) => {
          drawSelection(plot, now.current.chosen);
          drawMarks(plot, now.current.marks);
        },
      ],
      setCursor: [(plot) => showMarkTooltip(plot, now.current.marks)],
      setSelect: [(plot) => brushed(plot, now.current.onBrush)],
    },
  };
}

/**
 * Values over time. `times` in seconds; `series`: [{label, colour, values, fill?, dash?, apart?}]; `stacked` stacks
 * them, except those marked `apart`, which come last; `heat`: {buckets, values} draws a heat map below;
 * `marks`: [{at, kind, text}];
 * `chosen`: [from, to] is shaded; `span` is the length of the whole range in seconds.
 */
export function Chart({
  times,
  series,
  height = 180,
  stacked = false,
  onBrush,
  unit,
  label,
  marks = [],
  heat = null,
  chosen = null,
  span = 0,
}) {
  const element = useRef(null);
  const plot = useRef(null);
  const hovered = useRef(false);
  const now = useRef(null);
  now.current = { times, series, height, stacked, onBrush, unit, marks, heat, chosen, span };
  // After drawing, which clears the legend: shows the newest values unless the pointer is over the chart.
  const newest = () => {
    if (plot.current && !hovered.current) plot.current.setLegend({ idx: now.current.times.length - 1 });
  };
  const put = () => {
    if (plot.current && !hovered.current) {
      plot.current.setData(dataOf(now.current));
      queueMicrotask(newest);
    }
  };
  const shape = `${series.map((one) => one.label + one.colour).join('|')} ${Boolean(heat)}`;
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(
        options(now, Math.max(200, element.current.clientWidth)),
        dataOf(now.current),
        element.current,
      );
      put();
    };
    make();
    const resize = new ResizeObserver(() => {
      const width = element.current?.clientWidth;
      if (width && Math.abs(width - plot.current.width) > 1) {
        plot.current.setSize({ width, height });
        put();
      }
    });
    resize.observe(element.current);
    addEventListener('punctual:theme', make);
    return () => {
      resize.disconnect();
      removeEventListener('punctual:theme', make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape, height]);
  useEffect(put, [times, series, marks.length, String(chosen)]);
  const enter = () => {
    hovered.current = true;
  };
  const leave = () => {
    hovered.current = false;
    put();
  };
  return html`<div
    class="chart"
    role="img"
    aria-label=${label}
    ref=${element}
    onMouseEnter=${enter}
    onMouseLeave=${leave}
  ></div>`;
}

/** Heat map of durations over time, with lines of percentiles on it. */
export function HeatMap({ times, buckets, values, lines: percentiles, ...rest }) {
  const [least] = edgesOf(buckets, values);
  const series = percentiles.map((one) => ({
    ...one,
    values: one.values.map((value) => (value === null || value === undefined ? null : Math.max(value, least))),
  }));
  return html`<${Chart} times=${times} series=${series} heat=${{ buckets, values }} ...${rest} />`;
}
