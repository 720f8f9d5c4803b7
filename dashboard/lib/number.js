// Number formats: counts, abbreviated counts and sizes in bytes.

const whole = new Intl.NumberFormat('en-GB');

/** `1 234 567` becomes `1,234,567`. */
export const count = (value) => (value === null || value === undefined ? '–' : whole.format(value));

/** `1.2 M`, `34 k`. */
export function short(value) {
  if (value === null || value === undefined) return '–';
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${Math.round(value / 1e3)} k`;
  if (size >= 100 || Number.isInteger(value)) return whole.format(Math.round(value));
  return value.toFixed(1);
}

/** `≈ 1.2 M` for a count that the storage estimated from a part of its rows. */
export const approximate = (text, { estimate, count: value }) => (estimate && value >= 1000 ? `≈ ${text}` : text);

/** `3.4 MB`. */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let size = value,
    at = 0;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${at === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[at]}`;
}
