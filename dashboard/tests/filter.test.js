// Tests of the filter language: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import {
  EXECUTIONS,
  choose,
  parseInstant,
  isCheapToCount,
  parseDuration,
  parameters,
  parse,
  suggest,
  valueOf,
  withTerm,
  formatTerm,
} from '../lib/filter.js';

const now = Date.parse('2026-03-01T12:00:00Z');
const parametersOf = (text) => parameters(text, { now });
const problems = (text) => parse(text).problems.map((found) => found.problem);

test('terms become API parameters', () => {
  assert.deepEqual(parametersOf('state:dead topic:send-email queue:mail key:c-7 job:nightly error:refused'), {
    state: 'dead',
    topic: 'send-email',
    queue: 'mail',
    key: 'c-7',
    job: 'nightly',
    error: 'refused',
  });
  assert.deepEqual(parametersOf('state:pending,running state:dead'), { state: 'pending,running,dead' });
  assert.deepEqual(parametersOf(''), {});
});

test('attempts accept both operators', () => {
  assert.deepEqual(parametersOf('attempt>3'), { attempt_min: 4 });
  assert.deepEqual(parametersOf('attempt>=3'), { attempt_min: 3 });
});

test('ages and times become instants, and the narrower bound applies', () => {
  assert.deepEqual(parametersOf('age>5m'), { until: '2026-03-01T11:55:00.000Z' });
  assert.deepEqual(parametersOf('age<1h30m'), { since: '2026-03-01T10:30:00.000Z' });
  assert.deepEqual(parametersOf('since:2h until:2026-03-01T11:30:00Z age>1h'), {
    since: '2026-03-01T10:00:00.000Z',
    until: '2026-03-01T11:00:00.000Z',
  });
});

test('a payload filter needs a path', () => {
  assert.deepEqual(parametersOf('payload.user.id:42'), { payload: 'user.id:42' });
  assert.match(problems('payload.a:1 payload.b:2')[0], /once/);
  assert.deepEqual(problems('payload:42'), ['A payload filter needs a path, such as payload.user.id:42.']);
});

test('other words are searched unchanged', () => {
  assert.deepEqual(parametersOf('state:dead connection "10.0.0.7 refused"'), {
    state: 'dead',
    search: 'connection 10.0.0.7 refused',
  });
});

test('quotation marks keep blanks, colons and marks', () => {
  assert.deepEqual(parametersOf('error:"no such \\"mailbox\\""'), { error: 'no such "mailbox"' });
  assert.equal(valueOf('key:"a:b c" x', 'key'), 'a:b c');
  assert.equal(problems('error:"never closed').length, 1);
});

test('invalid terms are reported and left out', () => {
  assert.match(problems('colour:red')[0], /Unknown key “colour”/);
  assert.match(problems('state:ended')[0], /“ended” is not a state/);
  assert.match(problems('topic:')[0], /needs a value/);
  assert.match(problems('topic:a topic:b')[0], /once/);
  assert.match(problems('attempt<3')[0], />=/);
  assert.match(problems('attempt>x')[0], /not a number/);
  assert.match(problems('age>soon')[0], /not a duration/);
  assert.match(problems('since:yesterday')[0], /not a time/);
  assert.deepEqual(parametersOf('state:ended topic:a'), { topic: 'a' });
});

test('a formatted term parses to the same term', () => {
  for (const text of ['state:dead', 'error:"a b"', 'attempt>=3', 'payload.user.id:42', '"two words"', 'key:"a\\\\b"']) {
    const [term] = parse(text).terms;
    const { start, end, ...again } = parse(formatTerm(term)).terms[0];
    const { start: _start, end: _end, ...first } = term;
    assert.deepEqual(again, first);
  }
});

test('a key is set, replaced and removed', () => {
  assert.equal(withTerm('topic:a words', 'state', 'dead'), 'state:dead topic:a words');
  assert.equal(withTerm('state:dead topic:a', 'state', 'done'), 'state:done topic:a');
  assert.equal(withTerm('state:dead topic:a', 'state', null), 'topic:a');
  assert.equal(withTerm('', 'topic', 'a b'), 'topic:"a b"');
});

test('executions have no free words', () => {
  assert.match(parse('refused', EXECUTIONS).problems[0].problem, /has no key/);
  assert.deepEqual(parameters('ending:failed,lost refused', { grammar: EXECUTIONS }), { ending: 'failed,lost' });
});

test('durations and instants', () => {
  assert.equal(parseDuration('1h30m'), 5_400_000);
  assert.equal(parseDuration('500ms'), 500);
  assert.equal(parseDuration('5 minutes'), null);
  assert.equal(parseInstant('never', now), null);
});

test('keys are suggested, then values', () => {
  const texts = (text, caret = text.length, values = {}) => suggest(text, caret, values).items.map((item) => item.text);
  assert.deepEqual(texts('st'), ['state:']);
  assert.deepEqual(texts('state:de'), ['state:dead']);
  assert.deepEqual(texts('state:pending,de'), ['state:pending,dead']);
  assert.deepEqual(texts('topic:se', 8, { topic: ['send-email', 'other'] }), ['topic:send-email']);
  assert.deepEqual(texts('pay'), ['payload.']);
  assert.ok(texts('state:dead ').includes('topic:'));
  assert.deepEqual(texts('nothing-like-it'), []);
  assert.deepEqual(
    suggest('en', 2, {}, EXECUTIONS).items.map((item) => item.text),
    ['ending:'],
  );
});

test('a suggestion replaces the typed text', () => {
  const place = suggest('to state:dead', 2);
  assert.deepEqual(choose('to state:dead', place, place.items[0]), { text: 'topic: state:dead', caret: 6 });
  const value = suggest('state:de', 8);
  assert.deepEqual(choose('state:de', value, value.items[0]), { text: 'state:dead ', caret: 11 });
});

test('only filters of the storage itself are cheap to count', () => {
  assert.ok(isCheapToCount(parametersOf('state:dead topic:a')));
  assert.ok(!isCheapToCount(parametersOf('state:dead words')));
});
