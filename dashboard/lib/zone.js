// Calendar days and hours in a time zone. A day may have 23 or 25 hours; the browser has the rules of every zone.

const DAY = 86_400_000;
const HOUR = 3_600_000;
const formats = new Map();

function parts(instant, zone) {
  if (!formats.has(zone)) {
    formats.set(
      zone,
      new Intl.DateTimeFormat('en-GB', {
        timeZone: zone,
        hourCycle: 'h23',
        year: 'numeric',
        month: '2-digit',
        day: '2-digit',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
      }),
    );
  }
  return Object.fromEntries(
    formats
      .get(zone)
      .formatToParts(new Date(instant))
      .map((part) => [part.type, part.value]),
  );
}

/** Day of an instant in a zone, `2026-11-15`. */
export function dayOf(instant, zone) {
  const { year, month, day } = parts(instant, zone);
  return `${year}-${month}-${day}`;
}

/** Hour of an instant in a zone, `02`. */
export const hourOf = (instant, zone) => parts(instant, zone).hour;

/** Offset of a zone from UTC at an instant, in milliseconds. */
export function offset(instant, zone) {
  const { year, month, day, hour, minute, second } = parts(instant, zone);
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instant / 1_000) * 1_000;
}

/** Instant at which a day begins in a zone. */
export function startOf(day, zone) {
  const wall = Date.parse(`${day}T00:00:00Z`);
  let instant = wall - offset(wall, zone);
  instant = wall - offset(instant, zone);
  return dayOf(instant, zone) < day ? instant + HOUR : instant;
}

/** Adds days to a day. */
export const addDays = (day, count) =>
  new Date(Date.parse(`${day}T00:00:00Z`) + count * DAY).toISOString().slice(0, 10);

/** Monday of the week of a day. */
export const mondayOf = (day) => addDays(day, -((new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7));

/** Whether a text is a valid day. */
export const isDay = (text) => /^\d{4}-\d{2}-\d{2}$/.test(text ?? '') && !Number.isNaN(Date.parse(`${text}T00:00:00Z`));

/** `Sunday 15 November`. */
export const dayName = (day, style = 'long') =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', weekday: style, day: 'numeric', month: style }).format(
    new Date(`${day}T00:00:00Z`),
  );

/** Whether the browser supports a zone. */
export function isZone(zone) {
  try {
    new Intl.DateTimeFormat('en-GB', { timeZone: zone });
    return Boolean(zone);
  } catch {
    return false;
  }
}

/** Zones to choose from. */
export const zones = () =>
  Intl.supportedValuesOf ? ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')] : ['UTC'];

/** Formats a wall-clock time of the API, `2026-11-16T02:00:00`, as `Mon 16 Nov, 02:00`. */
export function wall(local) {
  const date = new Date(`${local}Z`);
  if (Number.isNaN(date.getTime())) return local;
  const year = date.getUTCFullYear() === new Date().getFullYear() ? {} : { year: 'numeric' };
  return new Intl.DateTimeFormat('en-GB', {
    timeZone: 'UTC',
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    ...year,
    hour: '2-digit',
    minute: '2-digit',
    ...(date.getUTCSeconds() ? { second: '2-digit' } : {}),
    hourCycle: 'h23',
  }).format(date);
}
