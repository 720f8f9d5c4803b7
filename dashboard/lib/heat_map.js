// Heat map: drawn under a chart with one column per time step and one cell per bucket of durations, darker for
// larger counts. The scale is logarithmic, as the buckets are.

/** Bounds of the buckets. Values beyond the last bound get a bucket of the same height. */
export function edgesOf(bounds, values) {
  const [first, last] = [bounds[0], bounds[bounds.length - 1]];
  const beyond = values.some((column) => column?.length > bounds.length);
  return [Math.max(0.5, first / 2), ...bounds, ...(beyond ? [last * 2] : [])];
}

/** Scale of the y axis. */
export const heatScale = (heat) => ({
  distr: 3,
  log: 10,
  range: () => {
    const edges = edgesOf(heat().buckets, heat().values);
    return [edges[0], edges[edges.length - 1]];
  },
});

/** Durations with a line and a label, in milliseconds; more of them would cover the cells. */
const DURATIONS = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000];
export const DURATION_AXIS = {
  splits: (_plot, _axis, low, high) => DURATIONS.filter((one) => low <= one && one <= high),
  filter: (_plot, splits) => splits,
};

/** Largest count of a cell, which gets the darkest colour. */
function maxCount(values) {
  let top = 1;
  for (const column of values) for (const count of column ?? []) if (count > top) top = count;
  return top;
}

/** Draws the cells. `values[time][bucket]` are counts; a bucket ends at its bound. */
export function drawHeat(plot, times, { buckets, values }, colour) {
  if (times.length < 2) return;
  const { ctx, bbox } = plot;
  const top = Math.log(1 + maxCount(values));
  const edges = edgesOf(buckets, values).map((bound) => plot.valToPos(bound, 'y', true));
  const step = times[1] - times[0];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = colour;
  times.forEach((time, at) => {
    const left = Math.floor(plot.valToPos(time, 'x', true));
    const width = Math.max(1, Math.floor(plot.valToPos(time + step, 'x', true)) - left);
    (values[at] ?? []).forEach((count, bucket) => {
      if (!count) return;
      const [low, high] = [edges[bucket], edges[bucket + 1]];
      ctx.globalAlpha = 0.08 + 0.55 * (Math.log(1 + count) / top);
      ctx.fillRect(left, Math.round(high), width, Math.round(low) - Math.round(high));
    });
  });
  ctx.restore();
}
