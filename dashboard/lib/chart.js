// Charts on uPlot, in the colours of the theme. A range that is brushed is handed out; nothing moves while the
// pointer is on it.

import uPlot from '../vendor/uplot.js';
import { html, useEffect, useRef } from './html.js';

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function options({ series, height, stacked, onBrush, unit, width }) {
  const grid = { stroke: colour('line'), width: 1 };
  const axis = { stroke: colour('faint'), grid, ticks: grid, font: '11px system-ui', labelFont: '11px system-ui' };
  return {
    width, height,
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    legend: { live: true },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.08)] } },
    axes: [
      { ...axis },
      { ...axis, size: 52, values: (_, ticks) => ticks.map((tick) => (unit ? unit(tick) : tick)) },
    ],
    series: [{}, ...series.map((one) => ({
      label: one.label, stroke: colour(one.colour), width: 1.5, points: { show: false },
      fill: stacked || one.fill ? `color-mix(in srgb, ${colour(one.colour)} 22%, transparent)` : undefined,
      value: (_, value) => (value === null || value === undefined ? '–' : unit ? unit(value) : value),
    }))],
    hooks: {
      setSelect: [(plot) => {
        if (!onBrush || plot.select.width < 4) return;
        onBrush(plot.posToVal(plot.select.left, 'x'), plot.posToVal(plot.select.left + plot.select.width, 'x'));
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }],
    },
  };
}

/** Lines over time. `times` in seconds; `series`: [{label, colour, values}]. */
export function Chart({ times, series, height = 180, stacked = false, onBrush, unit, label }) {
  const place = useRef(null);
  const plot = useRef(null);
  const over = useRef(false);
  const shape = series.map((one) => one.label + one.colour).join('|');
  const data = [times, ...series.map((one) => one.values)];
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      const width = Math.max(200, place.current.clientWidth);
      plot.current = new uPlot(options({ series, height, stacked, onBrush, unit, width }), data, place.current);
    };
    make();
    const resize = new ResizeObserver(() => {
      const width = place.current?.clientWidth;
      if (width && Math.abs(width - plot.current.width) > 1) plot.current.setSize({ width, height });
    });
    resize.observe(place.current);
    const theme = () => make();
    addEventListener('punctual:theme', theme);
    return () => { resize.disconnect(); removeEventListener('punctual:theme', theme); plot.current?.destroy(); plot.current = null; };
  }, [shape, height]);
  useEffect(() => { if (!over.current) plot.current?.setData(data); }, [times, series]);
  const enter = () => { over.current = true; };
  const leave = () => { over.current = false; plot.current?.setData(data); };
  return html`<div class="chart" role="img" aria-label=${label} ref=${place} onMouseEnter=${enter} onMouseLeave=${leave}></div>`;
}
