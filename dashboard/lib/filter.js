// Filter language: `state:dead topic:send-email attempt>3 age>5m payload.user.id:42 words`. Pure functions: parse a
// text into terms and problems, build API parameters, and suggest completions.

import { filter as texts } from '../texts/filter.js';

const STATES = ['pending', 'running', 'done', 'dead', 'cancelled'];
const PHASES = ['scheduled', 'ready', 'retrying', 'running', 'stale', 'done', 'dead', 'cancelled'];
const ENDINGS = [
  'succeeded',
  'failed',
  'timed_out',
  'panicked',
  'no_handler',
  'poison',
  'snoozed',
  'discarded',
  'cancelled',
  'released',
  'lost',
  'skipped',
];
const DURATIONS = ['5m', '1h', '24h', '7d'];
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

const one = (name) => ({ name, operators: [':'] });
const words = (name, values) => ({ name, operators: [':'], values, many: true });
const RANGE = { since: one('since'), until: one('until') };

/** Grammar for messages: keys, and free words. */
export const MESSAGES = {
  words: true,
  keys: [
    words('state', STATES),
    words('phase', PHASES),
    one('topic'),
    one('queue'),
    one('key'),
    one('job'),
    one('batch'),
    one('error'),
    { name: 'attempt', operators: ['>=', '>'], values: ['1', '3', '5'] },
    { name: 'age', operators: ['>', '<'], values: DURATIONS },
    { ...RANGE.since, values: DURATIONS },
    { ...RANGE.until, values: DURATIONS },
    { name: 'payload', operators: [':'], path: true },
  ],
};

/** Grammar for executions. */
export const EXECUTIONS = {
  words: false,
  keys: [
    words('ending', ENDINGS),
    one('job'),
    one('topic'),
    one('message'),
    { ...RANGE.since, values: DURATIONS },
    { ...RANGE.until, values: DURATIONS },
  ],
};

/** Parses `1h30m` into milliseconds; null when the text is not a duration. */
export function parseDuration(text) {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) return null;
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

/** Parses a date and time, or a duration before `now`, into an instant; null when the text is neither. */
export function parseInstant(text, now) {
  const length = parseDuration(text);
  if (length !== null) return new Date(now - length).toISOString();
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return null;
  const time = Date.parse(text.length === 10 ? `${text}T00:00` : text);
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

/** Splits a text at blanks; quotation marks keep blanks together. */
function tokenize(text) {
  const found = [];
  let start = null,
    quoted = false;
  for (let at = 0; at <= text.length; at += 1) {
    const sign = text[at];
    const ends = sign === undefined || (!quoted && /\s/.test(sign));
    if (ends && start !== null) {
      found.push({ start, end: at, raw: text.slice(start, at), open: quoted });
      start = null;
    }
    if (ends) continue;
    if (start === null) start = at;
    if (quoted && sign === '\\') at += 1;
    else if (sign === '"') quoted = !quoted;
  }
  return found;
}

const unquote = (raw) => raw.replace(/\\(.)|"/g, (_, sign) => sign ?? '');
const quote = (value) => (value === '' || /[\s"\\]/.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : value);

function parseTerm({ start, end, raw, open }) {
  const cut = /^([a-z_]+(?:\.[^:<>="\s]+)?)(>=|<=|:|>|<|=)/i.exec(raw);
  if (!cut) return { key: null, operator: null, value: unquote(raw), start, end, open };
  const [name, ...path] = cut[1].split('.');
  return {
    key: name.toLowerCase(),
    path: path.join('.'),
    operator: cut[2],
    value: unquote(raw.slice(cut[0].length)),
    start,
    end,
    open,
  };
}

function problemOf(found, { keys, words }, seen) {
  if (found.open) return texts.problem.quote;
  if (found.key === null)
    return words ? null : texts.problem.words(found.value, keys.map((key) => key.name).join(', '));
  const known = keys.find((key) => key.name === found.key);
  if (!known) return texts.problem.key(found.key, keys.map((key) => key.name).join(', '));
  if (!known.operators.includes(found.operator)) return texts.problem.operator(found.key, known.operators.join(' '));
  if (Boolean(found.path) !== Boolean(known.path)) return texts.problem.path;
  if (found.value === '') return texts.problem.empty(found.key);
  if (seen.has(found.key) && !known.many) return texts.problem.twice(found.key);
  return valueProblem(found, known);
}

function valueProblem({ key, value }, known) {
  if (known.many) {
    const wrong = value.split(',').find((word) => !known.values.includes(word));
    return wrong === undefined ? null : texts.problem.word(key, wrong, known.values.join(', '));
  }
  if (key === 'attempt' && !/^\d+$/.test(value)) return texts.problem.number(value);
  if (key === 'age' && parseDuration(value) === null) return texts.problem.duration(value);
  if ((key === 'since' || key === 'until') && parseInstant(value, 0) === null) return texts.problem.instant(value);
  return null;
}

/** Returns the terms of a filter, and its problems. */
export function parse(text, grammar = MESSAGES) {
  const terms = tokenize(text).map(parseTerm);
  const seen = new Set();
  const problems = [];
  for (const found of terms) {
    const problem = problemOf(found, grammar, seen);
    if (problem) problems.push({ start: found.start, end: found.end, problem });
    if (found.key) seen.add(found.key);
  }
  return { terms, problems };
}

/** Formats a term. */
export const formatTerm = ({ key, path, operator, value }) =>
  key === null ? quote(value) : `${key}${path ? `.${path}` : ''}${operator}${quote(value)}`;

/** Returns the text with a key set to a value; null removes the key. */
export function withTerm(text, key, value) {
  const kept = parse(text)
    .terms.filter((found) => found.key !== key)
    .map(formatTerm);
  return [...(value === null || value === '' ? [] : [formatTerm({ key, operator: ':', value })]), ...kept].join(' ');
}

/** Returns the value of a key, or null. */
export const valueOf = (text, key) => parse(text).terms.find((found) => found.key === key)?.value ?? null;

/** Returns the parameters of the API request. Invalid terms are left out; `problems` names them. */
export function parameters(text, { grammar = MESSAGES, now = Date.now() } = {}) {
  const { terms, problems } = parse(text, grammar);
  const good = terms.filter((found) => !problems.some((problem) => problem.start === found.start));
  const params = {};
  const later = (instant) => {
    if (!params.since || instant > params.since) params.since = instant;
  };
  const sooner = (instant) => {
    if (!params.until || instant < params.until) params.until = instant;
  };
  const add = (key, value) => {
    params[key] = params[key] ? `${params[key]},${value}` : value;
  };
  for (const { key, path, operator, value } of good) {
    if (key === null) params.search = params.search ? `${params.search} ${value}` : value;
    else if (key === 'attempt') params.attempt_min = Number(value) + (operator === '>' ? 1 : 0);
    else if (key === 'age') (operator === '>' ? sooner : later)(parseInstant(value, now));
    else if (key === 'since') later(parseInstant(value, now));
    else if (key === 'until') sooner(parseInstant(value, now));
    else if (key === 'payload') params.payload = `${path}:${value}`;
    else add(key, value);
  }
  return params;
}

/** Whether the storage evaluates all of it by itself, so that counting is cheap. */
export const isCheapToCount = (params) =>
  !['phase', 'error', 'attempt_min', 'since', 'until', 'search', 'payload'].some((key) => key in params);

/**
 * Suggests completions at the caret: first keys, then values. `values` are the known values by key, such as `{ topic:
 * ['send-email'] }`. Returns the range of the text that a choice replaces, and the items.
 */
export function suggest(text, caret, values = {}, { keys } = MESSAGES) {
  const piece = tokenize(text).find((found) => found.start <= caret && caret <= found.end) ?? {
    start: caret,
    end: caret,
    raw: '',
  };
  const typed = text.slice(piece.start, caret);
  const cut = /^([a-z_]+)(>=|<=|:|>|<)/i.exec(typed);
  const place = { from: piece.start, to: piece.end };
  return { ...place, items: cut ? suggestValues(cut, typed, values, keys) : suggestKeys(typed, keys) };
}

function suggestKeys(typed, keys) {
  const begin = typed.toLowerCase();
  return keys
    .filter((key) => key.name.startsWith(begin))
    .map((key) => ({
      text: key.path ? `${key.name}.` : `${key.name}${key.operators[0]}`,
      about: texts.about[key.name],
      hasValue: true,
    }));
}

function suggestValues([head, name, operator], typed, values, keys) {
  const known = keys.find((key) => key.name === name.toLowerCase());
  if (!known) return [];
  const typedValues = unquote(typed.slice(head.length)).split(',');
  const last = known.many ? typedValues.pop() : typedValues.join(',');
  const before = known.many && typedValues.length > 0 ? `${typedValues.join(',')},` : '';
  return (known.values ?? values[known.name] ?? [])
    .filter((value) => value.toLowerCase().includes(last.toLowerCase()) && !(known.many && typedValues.includes(value)))
    .slice(0, 12)
    .map((value) => ({ text: `${known.name}${operator}${quote(before + value)}`, label: value, hasValue: false }));
}

/** Returns the text with a suggestion inserted, and the new caret. */
export function choose(text, { from, to }, item) {
  const rest = text.slice(to).replace(/^\s+/, '');
  const head = text.slice(0, from) + item.text + (item.hasValue ? '' : ' ');
  return { text: head + (rest && item.hasValue ? ' ' : '') + rest, caret: head.length };
}
