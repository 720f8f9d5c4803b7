// Exact JSON: numbers that JavaScript cannot represent keep their digits, such as large ids.

/** A number that a JavaScript number cannot hold. */
export class ExactNumber {
  constructor(source) {
    this.source = source;
  }
  toString() {
    return this.source;
  }
}

/** Reviver for `JSON.parse`: keeps the text of a number that would lose digits; older browsers do not pass it. */
export function reviveExact(_, value, context) {
  const source = context?.source;
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value;
  return Number.isSafeInteger(value) || canonical(source) === canonical(String(value))
    ? value
    : new ExactNumber(source);
}

/** Normal form of a number: `1.50` and `15e-1` are equal. */
function canonical(source) {
  const [, sign, whole, fraction = '', power = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(source) ?? [];
  if (whole === undefined) return source;
  const digits = (whole + fraction).replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  return kept === '' ? '0' : `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`;
}

/** Like `JSON.stringify`, with exact numbers. */
export function stringify(value, indent = 2, depth = 0) {
  if (value instanceof ExactNumber) return value.source;
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value)
    ? value.map((item) => stringify(item, indent, depth + 1))
    : Object.entries(value).map(
        ([key, item]) => `${JSON.stringify(key)}:${indent ? ' ' : ''}${stringify(item, indent, depth + 1)}`,
      );
  if (parts.length === 0) return open + close;
  const [before, after] = indent
    ? [`\n${' '.repeat(indent * (depth + 1))}`, `\n${' '.repeat(indent * depth)}`]
    : ['', ''];
  return `${open}${before}${parts.join(`,${before}`)}${after}${close}`;
}
