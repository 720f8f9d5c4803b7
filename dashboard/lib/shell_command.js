// Shell commands, quoted so that they can be pasted.

/** Quotes a word for the shell when it needs to be quoted. */
export const shellWord = (value) => {
  const text = String(value);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
};

const isGiven = (value) => value !== null && value !== undefined && value !== false && value !== '';
const isDashed = (value) => String(value).startsWith('-');

/** `--name value`; `--name=value` for a value that begins with a dash, which would be read as another option. */
const option = (name, value) =>
  value === true ? `--${name}` : `--${name}${isDashed(value) ? '=' : ' '}${shellWord(value)}`;

/**
 * Builds a `punctual` command. An option that is null, false or empty is left out, `true` is a flag without value, a
 * list repeats the option. Words that begin with a dash come last, after `--`.
 */
export function commandLine(words, options = {}) {
  const given = Object.entries(options).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter(isGiven).map((one) => option(name, one)),
  );
  const first = words.findIndex(isDashed);
  if (first < 0) return ['punctual', ...words.map(shellWord), ...given].join(' ');
  return [
    'punctual',
    ...words.slice(0, first).map(shellWord),
    ...given,
    '--',
    ...words.slice(first).map(shellWord),
  ].join(' ');
}

/** Joins commands that run one after the other. */
export const sequence = (lines) => lines.join(' && ');
