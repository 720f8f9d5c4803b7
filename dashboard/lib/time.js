// Times: absolute times in the zone of the viewer with that of the job beside, relative times that tick, durations.

import { html, useEffect, useRef, useState } from './html.js';

const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone;
const formats = new Map();

function format(zone, options) {
  const key = `${zone} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options }));
  return formats.get(key);
}

/** Zone of the viewer. */
export const zone = LOCAL;

/** `15 Nov 2026, 21:04:09`; the current year is left out. */
export function clock(instant, inZone = LOCAL, { seconds = true } = {}) {
  if (!instant) return '–';
  const date = new Date(instant);
  const year = date.getFullYear() === new Date().getFullYear() ? {} : { year: 'numeric' };
  return format(inZone, {
    day: 'numeric',
    month: 'short',
    ...year,
    hour: '2-digit',
    minute: '2-digit',
    ...(seconds ? { second: '2-digit' } : {}),
    hourCycle: 'h23',
  }).format(date);
}

/** `21:04:09`. */
export function hour(instant, inZone = LOCAL) {
  return instant
    ? format(inZone, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }).format(
        new Date(instant),
      )
    : '–';
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
];

/** `2 d 3 h`, `4 m 5 s`, `1.2 s`, `340 ms`. */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return '–';
  const value = Math.abs(milliseconds);
  if (value < 1_000) return `${Math.round(value)} ms`;
  if (value < 10_000) return `${(value / 1_000).toFixed(1)} s`;
  const at = UNITS.findIndex(([, unit]) => value >= unit);
  const [name, unit] = UNITS[at];
  const rest = UNITS[at + 1];
  const left = rest ? Math.floor((value % unit) / rest[1]) : 0;
  return `${Math.floor(value / unit)} ${name}${left ? ` ${left} ${rest[0]}` : ''}`;
}

/** `in 4 m 5 s`, `12 s ago`, `now`. */
export function relative(instant, now = Date.now()) {
  if (!instant) return '–';
  const away = new Date(instant) - now;
  if (Math.abs(away) < 1_000) return 'now';
  const seconds = Math.floor(Math.abs(away) / 1_000);
  const far = seconds < 10 ? `${seconds} s` : duration(seconds * 1_000);
  return away > 0 ? `in ${far}` : `${far} ago`;
}

/** Callbacks that tick together: one timer, and none while the page is hidden. */
const ticking = new Set();
let timer = null;

function tickAll() {
  if (!document.hidden) for (const tick of ticking) tick();
}

/** Returns the result of `read`; renders again in the second in which it changes. */
export function useTicking(read) {
  const latest = useRef(read);
  latest.current = read;
  const [, set] = useState(null);
  useEffect(() => {
    const tick = () => set(latest.current());
    ticking.add(tick);
    timer ??= setInterval(tickAll, 1_000);
    return () => {
      ticking.delete(tick);
      if (ticking.size === 0) {
        clearInterval(timer);
        timer = null;
      }
    };
  }, []);
  return read();
}

/** Renders again every second. */
export const useTick = () => useTicking(() => Math.floor(Date.now() / 1_000));

/** A ticking relative time; the exact time is in the tooltip, in the zones of viewer and job. */
export function Ago({ at, zone: inZone }) {
  const words = useTicking(() => relative(at));
  if (!at) return html`<span class="faint">–</span>`;
  const exact = `${clock(at)} (${LOCAL})${inZone && inZone !== LOCAL ? `, ${clock(at, inZone)} (${inZone})` : ''}`;
  return html`<time datetime=${at} title=${exact} class="num">${words}</time>`;
}

/** An exact time in the zone of the viewer, with that of the job beside when it differs. */
export function When({ at, zone: inZone, seconds = true }) {
  if (!at) return html`<span class="faint">–</span>`;
  const other = inZone && inZone !== LOCAL;
  return html`<time datetime=${at} title=${relative(at)} class="num">
    ${clock(at, LOCAL, { seconds })}
    ${other ? html` <span class="faint">· ${clock(at, inZone, { seconds })} ${inZone}</span>` : null}
  </time>`;
}
