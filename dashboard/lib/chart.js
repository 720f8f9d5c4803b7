// Charts on uPlot, in the colours of the theme: lines, stacked areas and heat maps over time, with vertical marks.
// A range that is brushed is handed out; nothing moves while the pointer is on it.

import uPlot from '../vendor/uplot.js';
import { html, useEffect, useRef } from './html.js';
import { clock, hour, zone } from './time.js';
import { LENGTH_AXIS, drawHeat, edgesOf, heatScale } from './heat.js';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const PERIODS = [[86_400, { day: 'numeric', month: 'short' }], [60, { hour: '2-digit', minute: '2-digit' }], [0, { hour: '2-digit', minute: '2-digit', second: '2-digit' }]];

/** A colour of the theme, as seen through; the tokens are `#rrggbb`. */
const faded = (name, share) => `${css(name)}${Math.round(share * 255).toString(16).padStart(2, '0')}`;

function ticks(_, instants, _axis, _space, step) {
  const [, parts] = PERIODS.find(([least]) => step >= least);
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hourCycle: 'h23', ...parts });
  return instants.map((instant) => format.format(new Date(instant * 1_000)));
}

/** Each series on top of those before it, but for those that stand apart; the raw values stay for the legend. */
function stack(series) {
  const sum = [];
  return series.map((one) => (one.apart ? one.values : one.values.map((value, at) => { sum[at] = (sum[at] ?? 0) + (value ?? 0); return sum[at]; })));
}

const dataOf = (props) => [props.times, ...(props.stacked ? stack(props.series) : props.series.map((one) => one.values))];

function lines(now) {
  const { series, stacked, unit } = now.current;
  const shown = (value) => (value === null || value === undefined ? '–' : unit ? unit(value) : value);
  return series.map((one, index) => ({
    label: one.label, stroke: css(one.colour), width: one.width ?? 1.5, dash: one.dash, points: { show: false },
    fill: (stacked && !one.apart) || one.fill ? faded(one.colour, stacked ? 0.35 : 0.15) : undefined,
    value: (_, value, _series, at) => shown(at === null || at === undefined ? value : now.current.series[index]?.values[at]),
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
    ctx.beginPath(); ctx.moveTo(x, bbox.top); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
    const size = 5 * devicePixelRatio;
    ctx.beginPath(); ctx.moveTo(x - size, bbox.top); ctx.lineTo(x + size, bbox.top); ctx.lineTo(x, bbox.top + size * 1.4); ctx.fill();
  }
  ctx.restore();
}

/** Shades the range that was brushed. */
function drawChosen(plot, chosen) {
  if (!chosen) return;
  const { ctx, bbox } = plot;
  const [left, right] = chosen.map((at) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(new Date(at) / 1_000, 'x', true))));
  ctx.save();
  ctx.fillStyle = faded('accent', 0.14);
  ctx.fillRect(left, bbox.top, right - left, bbox.height);
  ctx.restore();
}

/** The mark under the pointer, in words. */
function nameMark(plot, marks) {
  const near = marks.find((mark) => Math.abs(plot.valToPos(new Date(mark.at) / 1_000, 'x') - plot.cursor.left) < 7);
  plot.over.title = near ? `${near.text} (${clock(near.at)})` : '';
}

function brushed(plot, onBrush) {
  if (!onBrush || plot.select.width < 4) return;
  onBrush(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x'));
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
}

/** What is measured since a moment ago does not fill the chart: at least a fifth of the range is shown. */
const windowOf = (low, high, span) => [span ? Math.min(low, high - span / 5) : low, high];

/** `1.0 s` is `1 s` on an axis. */
const rounded = (shown) => String(shown).replace(/\.0(?=\s)/, '');

/** An axis as wide as its longest label. */
const wide = (_plot, labels) => Math.max(42, 16 + 6.5 * Math.max(0, ...(labels ?? []).map((label) => String(label).length)));

function options(now, width) {
  const { height, stacked, unit, heat } = now.current;
  const grid = { stroke: css('line'), width: 1 };
  const axis = { stroke: css('faint'), grid, ticks: grid, font: '11px system-ui', labelFont: '11px system-ui' };
  const count = now.current.series.filter((one) => !one.apart).length;
  return {
    width, height, padding: [10, 26, 0, 0],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 }, y: false },
    legend: { live: true },
    bands: stacked ? Array.from({ length: Math.max(0, count - 1) }, (_, at) => ({ series: [at + 2, at + 1] })) : [],
    scales: { x: { time: true, range: (_, low, high) => windowOf(low, high, now.current.span) }, y: heat ? heatScale(() => now.current.heat) : { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      { ...axis, size: 28, space: 54, values: ticks },
      { ...axis, size: wide, values: (_, values) => values.map((value) => (value === null ? '' : unit ? rounded(unit(value)) : value)), ...(heat ? LENGTH_AXIS : {}) },
    ],
    series: [{ value: (_, instant) => (instant ? hour(instant * 1_000) : '–') }, ...lines(now)],
    hooks: {
      drawClear: [(plot) => { if (now.current.heat) drawHeat(plot, now.current.times, now.current.heat, css('accent')); }],
      draw: [(plot) => { drawChosen(plot, now.current.chosen); drawMarks(plot, now.current.marks); }],
      setCursor: [(plot) => nameMark(plot, now.current.marks)],
      setSelect: [(plot) => brushed(plot, now.current.onBrush)],
    },
  };
}

/**
 * Values over time. `times` in seconds; `series`: [{label, colour, values, fill?, dash?, apart?}]; `stacked` puts them
 * on top of each other, but for those `apart`, which come last; `heat`: {buckets, values} paints a heat map below; `marks`: [{at, kind, text}];
 * `chosen`: [from, to] is shaded; `span` is how many seconds the whole range has.
 */
export function Chart({ times, series, height = 180, stacked = false, onBrush, unit, label, marks = [], heat = null, chosen = null, span = 0 }) {
  const place = useRef(null);
  const plot = useRef(null);
  const over = useRef(false);
  const now = useRef(null);
  now.current = { times, series, height, stacked, onBrush, unit, marks, heat, chosen, span };
  // After the drawing, which empties the legend: it shows the newest values while nobody points at others.
  const newest = () => { if (plot.current && !over.current) plot.current.setLegend({ idx: now.current.times.length - 1 }); };
  const put = () => { if (plot.current && !over.current) { plot.current.setData(dataOf(now.current)); queueMicrotask(newest); } };
  const shape = `${series.map((one) => one.label + one.colour).join('|')} ${Boolean(heat)}`;
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(options(now, Math.max(200, place.current.clientWidth)), dataOf(now.current), place.current);
      put();
    };
    make();
    const resize = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && Math.abs(width - plot.current.width) > 1) { plot.current.setSize({ width, height }); put(); }
    });
    resize.observe(place.current);
    addEventListener('punctual:theme', make);
    return () => { resize.disconnect(); removeEventListener('punctual:theme', make); plot.current?.destroy(); plot.current = null; };
  }, [shape, height]);
  useEffect(put, [times, series, marks.length, String(chosen)]);
  const enter = () => { over.current = true; };
  const leave = () => { over.current = false; put(); };
  return html`<div class="chart" role="img" aria-label=${label} ref=${place} onMouseEnter=${enter} onMouseLeave=${leave}></div>`;
}

/** How lengths spread over time: a heat map of buckets with lines of percentiles on it. */
export function HeatMap({ times, buckets, values, lines: percentiles, ...rest }) {
  const [least] = edgesOf(buckets, values);
  const series = percentiles.map((one) => ({ ...one, values: one.values.map((value) => (value === null || value === undefined ? null : Math.max(value, least))) }));
  return html`<${Chart} times=${times} series=${series} heat=${{ buckets, values }} ...${rest} />`;
}
