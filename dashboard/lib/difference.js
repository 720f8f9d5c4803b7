// Differences between two texts word by word, and between two values path by path. Pure functions.

const WORDS_MAX = 400;
/** Share of common text below which two texts are shown whole. */
const ALIKE = 0.4;
const isValue = (value) => value === null || typeof value !== 'object';
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** Lengths of the longest common subsequences of all suffixes. */
function commonLengths(before, after) {
  const lengths = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      lengths[i][j] =
        before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/** Returns parts {kind: 'same' | 'gone' | 'new', text}. Long texts and texts with little in common are not split. */
export function diffWords(before, after) {
  if (before === after) return [{ kind: 'same', text: after }];
  const [ours, theirs] = [before, after].map((text) => text.split(/(\s+)/));
  const whole = [
    { kind: 'gone', text: before },
    { kind: 'new', text: after },
  ];
  if (ours.length > WORDS_MAX || theirs.length > WORDS_MAX) return whole;
  const lengths = commonLengths(ours, theirs);
  const parts = [];
  const add = (kind, text) => {
    const last = parts[parts.length - 1];
    if (last?.kind === kind) last.text += text;
    else parts.push({ kind, text });
  };
  for (let i = 0, j = 0; i < ours.length || j < theirs.length;) {
    if (i < ours.length && j < theirs.length && ours[i] === theirs[j]) {
      add('same', ours[i]);
      i += 1;
      j += 1;
    } else if (j >= theirs.length || (i < ours.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      add('gone', ours[i]);
      i += 1;
    } else {
      add('new', theirs[j]);
      j += 1;
    }
  }
  const common = parts.filter((part) => part.kind === 'same').reduce((sum, part) => sum + part.text.trim().length, 0);
  return common < ALIKE * Math.min(before.length, after.length) ? whole : parts.filter((part) => part.text !== '');
}

/** Returns a list of {path, before, after}; `undefined` where a side has no value. */
export function diffValues(before, after, path = '') {
  if (same(before, after)) return [];
  if (isValue(before ?? null) && isValue(after ?? null)) return [{ path, before, after }];
  const [ours, theirs] = [before, after].map((value) => (isValue(value ?? null) ? {} : value));
  if ((isValue(before ?? null) && (before ?? null) !== null) || (isValue(after ?? null) && (after ?? null) !== null))
    return [{ path, before, after }];
  const names = [...new Set([...Object.keys(ours), ...Object.keys(theirs)])];
  return names.flatMap((name) => diffValues(ours[name], theirs[name], path ? `${path}.${name}` : name));
}
