// Lines for the shell, quoted so that they can be pasted.

/** A word of a shell line; quoted when it must be. */
export const word = (value) => {
  const text = String(value);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
};

const isGiven = (value) => value !== null && value !== undefined && value !== false && value !== '';
const isDashed = (value) => String(value).startsWith('-');

/** `--name value`; a value that begins with a dash would be read as another option. */
const option = (name, value) => (value === true ? `--${name}` : `--${name}${isDashed(value) ? '=' : ' '}${word(value)}`);

/**
 * `punctual` with words and options. An option that is null, false or empty is left out, `true` has no value, and a
 * list is given once for each of its values. Words that begin with a dash stand behind everything.
 */
export function line(words, options = {}) {
  const given = Object.entries(options).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).filter(isGiven).map((one) => option(name, one)));
  const first = words.findIndex(isDashed);
  if (first < 0) return ['punctual', ...words.map(word), ...given].join(' ');
  return ['punctual', ...words.slice(0, first).map(word), ...given, '--', ...words.slice(first).map(word)].join(' ');
}

/** Lines that are run one after the other. */
export const both = (lines) => lines.join(' && ');
