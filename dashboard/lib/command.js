// Lines for the shell, quoted so that they can be pasted.

/** A word of a shell line; quoted when it must be. */
export const word = (value) => {
  const text = String(value);
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
};

/** `punctual` with words and options; an option that is null, false or empty is left out, `true` has no value. */
export function line(words, options = {}) {
  const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined && value !== false && value !== '');
  return ['punctual', ...words.map(word), ...given.map(([name, value]) => (value === true ? `--${name}` : `--${name} ${word(value)}`))].join(' ');
}
