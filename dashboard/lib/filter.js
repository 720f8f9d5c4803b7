// The filter language: `state:dead topic:send-email attempt>3 age>5m payload.user.id:42 words`. Pure: a text goes
// in; terms, what is wrong, what the API is asked for, and what could come next come out.

import { filter as texts } from '../texts/filter.js';

const STATES = ['pending', 'running', 'done', 'dead', 'cancelled'];
const PHASES = ['scheduled', 'ready', 'retrying', 'running', 'stale', 'done', 'dead', 'cancelled'];
const ENDINGS = ['succeeded', 'failed', 'timed_out', 'panicked', 'no_handler', 'poison', 'snoozed', 'discarded', 'cancelled', 'released', 'lost', 'skipped'];
const LENGTHS = ['5m', '1h', '24h', '7d'];
const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

const one = (name) => ({ name, operators: [':'] });
const words = (name, values) => ({ name, operators: [':'], values, many: true });
const NOTE = { since: one('since'), until: one('until') };

/** What is understood of messages: keys, and words that are looked for as they stand. */
export const MESSAGES = { words: true, keys: [
  words('state', STATES), words('phase', PHASES), one('topic'), one('queue'), one('key'), one('job'), one('batch'), one('error'),
  { name: 'attempt', operators: ['>=', '>'], values: ['1', '3', '5'] },
  { name: 'age', operators: ['>', '<'], values: LENGTHS },
  { ...NOTE.since, values: LENGTHS }, { ...NOTE.until, values: LENGTHS },
  { name: 'payload', operators: [':'], path: true },
] };

/** What is understood of executions. */
export const EXECUTIONS = { words: false, keys: [
  words('ending', ENDINGS), one('job'), one('topic'), one('message'), { ...NOTE.since, values: LENGTHS }, { ...NOTE.until, values: LENGTHS },
] };

/** `1h30m` in milliseconds; null when it is no length. */
export function lengthOf(text) {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g)];
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) return null;
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0);
}

/** A time as an instant: written out, or a length before now; null when it is neither. */
export function instantOf(text, now) {
  const length = lengthOf(text);
  if (length !== null) return new Date(now - length).toISOString();
  if (!/^\d{4}-\d\d-\d\d/.test(text)) return null;
  const time = Date.parse(text.length === 10 ? `${text}T00:00` : text);
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

/** Cuts a text at blanks; quotation marks keep blanks together. */
function pieces(text) {
  const found = [];
  let start = null, quoted = false;
  for (let at = 0; at <= text.length; at += 1) {
    const sign = text[at];
    const ends = sign === undefined || (!quoted && /\s/.test(sign));
    if (ends && start !== null) { found.push({ start, end: at, raw: text.slice(start, at), open: quoted }); start = null; }
    if (ends) continue;
    if (start === null) start = at;
    if (quoted && sign === '\\') at += 1; else if (sign === '"') quoted = !quoted;
  }
  return found;
}

const unquote = (raw) => raw.replace(/\\(.)|"/g, (_, sign) => sign ?? '');
const quote = (value) => (value === '' || /[\s"\\]/.test(value) ? `"${value.replace(/["\\]/g, '\\$&')}"` : value);

function term({ start, end, raw, open }) {
  const cut = /^([a-z_]+(?:\.[^:<>="\s]+)?)(>=|<=|:|>|<|=)/i.exec(raw);
  if (!cut) return { key: null, operator: null, value: unquote(raw), start, end, open };
  const [name, ...path] = cut[1].split('.');
  return { key: name.toLowerCase(), path: path.join('.'), operator: cut[2], value: unquote(raw.slice(cut[0].length)), start, end, open };
}

function wrongWith(found, { keys, words }, seen) {
  if (found.open) return texts.problem.quote;
  if (found.key === null) return words ? null : texts.problem.words(found.value, keys.map((key) => key.name).join(', '));
  const known = keys.find((key) => key.name === found.key);
  if (!known) return texts.problem.key(found.key, keys.map((key) => key.name).join(', '));
  if (!known.operators.includes(found.operator)) return texts.problem.operator(found.key, known.operators.join(' '));
  if (Boolean(found.path) !== Boolean(known.path)) return texts.problem.path;
  if (found.value === '') return texts.problem.empty(found.key);
  if (seen.has(found.key) && !known.many) return texts.problem.twice(found.key);
  return wrongValue(found, known);
}

function wrongValue({ key, value }, known) {
  if (known.many) {
    const wrong = value.split(',').find((word) => !known.values.includes(word));
    return wrong === undefined ? null : texts.problem.word(key, wrong, known.values.join(', '));
  }
  if (key === 'attempt' && !/^\d+$/.test(value)) return texts.problem.number(value);
  if (key === 'age' && lengthOf(value) === null) return texts.problem.length(value);
  if ((key === 'since' || key === 'until') && instantOf(value, 0) === null) return texts.problem.instant(value);
  return null;
}

/** The terms of a filter, and what is wrong with it. */
export function parse(text, grammar = MESSAGES) {
  const terms = pieces(text).map(term);
  const seen = new Set();
  const problems = [];
  for (const found of terms) {
    const problem = wrongWith(found, grammar, seen);
    if (problem) problems.push({ start: found.start, end: found.end, problem });
    if (found.key) seen.add(found.key);
  }
  return { terms, problems };
}

/** A term as it is written. */
export const write = ({ key, path, operator, value }) => (key === null ? quote(value) : `${key}${path ? `.${path}` : ''}${operator}${quote(value)}`);

/** The text with a key set to a value, or without the key. */
export function withTerm(text, key, value) {
  const kept = parse(text).terms.filter((found) => found.key !== key).map(write);
  return [...(value === null || value === '' ? [] : [write({ key, operator: ':', value })]), ...kept].join(' ');
}

/** What a key is set to; null when it is not. */
export const valueOf = (text, key) => parse(text).terms.find((found) => found.key === key)?.value ?? null;

/** What the API is asked for. HandlerOptions that are wrong are left out; `problems` names them. */
export function parameters(text, { grammar = MESSAGES, now = Date.now() } = {}) {
  const { terms, problems } = parse(text, grammar);
  const good = terms.filter((found) => !problems.some((problem) => problem.start === found.start));
  const asked = {};
  const later = (instant) => { if (!asked.since || instant > asked.since) asked.since = instant; };
  const sooner = (instant) => { if (!asked.until || instant < asked.until) asked.until = instant; };
  const add = (key, value) => { asked[key] = asked[key] ? `${asked[key]},${value}` : value; };
  for (const { key, path, operator, value } of good) {
    if (key === null) asked.search = asked.search ? `${asked.search} ${value}` : value;
    else if (key === 'attempt') asked.attempt_min = Number(value) + (operator === '>' ? 1 : 0);
    else if (key === 'age') (operator === '>' ? sooner : later)(instantOf(value, now));
    else if (key === 'since') later(instantOf(value, now));
    else if (key === 'until') sooner(instantOf(value, now));
    else if (key === 'payload') asked.payload = `${path}:${value}`;
    else add(key, value);
  }
  return asked;
}

/** Whether a storage can answer it by itself, so that counting is cheap. */
export const isPlain = (asked) => !['phase', 'error', 'attempt_min', 'since', 'until', 'search', 'payload'].some((key) => key in asked);

/**
 * What could be written at the caret: first keys, then their values. `values` are those known of a key, `{ topic:
 * ['send-email'] }`. Answers the part of the text that a choice replaces.
 */
export function suggest(text, caret, values = {}, { keys } = MESSAGES) {
  const piece = pieces(text).find((found) => found.start <= caret && caret <= found.end) ?? { start: caret, end: caret, raw: '' };
  const typed = text.slice(piece.start, caret);
  const cut = /^([a-z_]+)(>=|<=|:|>|<)/i.exec(typed);
  const place = { from: piece.start, to: piece.end };
  return { ...place, items: cut ? suggestValues(cut, typed, values, keys) : suggestKeys(typed, keys) };
}

function suggestKeys(typed, keys) {
  const begin = typed.toLowerCase();
  return keys.filter((key) => key.name.startsWith(begin)).map((key) => ({
    text: key.path ? `${key.name}.` : `${key.name}${key.operators[0]}`, about: texts.about[key.name], goesOn: true,
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
    .map((value) => ({ text: `${known.name}${operator}${quote(before + value)}`, label: value, goesOn: false }));
}

/** The text with a suggestion put in, and where the caret is then. */
export function choose(text, { from, to }, item) {
  const rest = text.slice(to).replace(/^\s+/, '');
  const head = text.slice(0, from) + item.text + (item.goesOn ? '' : ' ');
  return { text: head + (rest && item.goesOn ? ' ' : '') + rest, caret: head.length };
}
