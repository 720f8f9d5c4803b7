// JSON whose numbers stay as they were written: a big id must not lose its last digits on the way to the eye.

/** A number that a JavaScript number cannot hold. */
export class Exact {
  constructor(source) { this.source = source; }
  toString() { return this.source; }
}

/** For `JSON.parse`: keeps a number as it was written where it would change. Old browsers do not tell how it was. */
export function keepExact(_, value, context) {
  const source = context?.source;
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value;
  return Number.isSafeInteger(value) || canonical(source) === canonical(String(value)) ? value : new Exact(source);
}

/** A number without what does not matter: `1.50` and `15e-1` are the same. */
function canonical(source) {
  const [, sign, whole, fraction = '', power = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(source) ?? [];
  if (whole === undefined) return source;
  const digits = (whole + fraction).replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  return kept === '' ? '0' : `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`;
}

/** The text of a value, with such numbers as they were. */
export function textOf(value, indent = 2, depth = 0) {
  if (value instanceof Exact) return value.source;
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value)
    ? value.map((item) => textOf(item, indent, depth + 1))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${indent ? ' ' : ''}${textOf(item, indent, depth + 1)}`);
  if (parts.length === 0) return open + close;
  const [before, after] = indent ? [`\n${' '.repeat(indent * (depth + 1))}`, `\n${' '.repeat(indent * depth)}`] : ['', ''];
  return `${open}${before}${parts.join(`,${before}`)}${after}${close}`;
}
