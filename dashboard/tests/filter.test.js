// Tests of the filter language: node --test dashboard/tests

import test from 'node:test';
import assert from 'node:assert/strict';
import { EXECUTIONS, choose, instantOf, isPlain, lengthOf, parameters, parse, suggest, valueOf, withTerm, write } from '../lib/filter.js';

const now = Date.parse('2026-03-01T12:00:00Z');
const asked = (text) => parameters(text, { now });
const problems = (text) => parse(text).problems.map((found) => found.problem);

test('terms become what the API is asked for', () => {
  assert.deepEqual(asked('state:dead topic:send-email queue:mail key:c-7 job:nightly error:refused'),
    { state: 'dead', topic: 'send-email', queue: 'mail', key: 'c-7', job: 'nightly', error: 'refused' });
  assert.deepEqual(asked('state:pending,running state:dead'), { state: 'pending,running,dead' });
  assert.deepEqual(asked(''), {});
});

test('attempts are counted with both signs', () => {
  assert.deepEqual(asked('attempt>3'), { attempt_min: 4 });
  assert.deepEqual(asked('attempt>=3'), { attempt_min: 3 });
});

test('ages and times become instants, and the narrower one counts', () => {
  assert.deepEqual(asked('age>5m'), { until: '2026-03-01T11:55:00.000Z' });
  assert.deepEqual(asked('age<1h30m'), { since: '2026-03-01T10:30:00.000Z' });
  assert.deepEqual(asked('since:2h until:2026-03-01T11:30:00Z age>1h'), { since: '2026-03-01T10:00:00.000Z', until: '2026-03-01T11:00:00.000Z' });
});

test('a content is asked for by its path', () => {
  assert.deepEqual(asked('payload.user.id:42'), { payload: 'user.id:42' });
  assert.match(problems('payload.a:1 payload.b:2')[0], /once/);
  assert.deepEqual(problems('payload:42'), ['A content needs a path, such as payload.user.id:42.']);
});

test('other words are looked for as they stand', () => {
  assert.deepEqual(asked('state:dead connection "10.0.0.7 refused"'), { state: 'dead', search: 'connection 10.0.0.7 refused' });
});

test('quotation marks keep blanks, colons and marks', () => {
  assert.deepEqual(asked('error:"no such \\"mailbox\\""'), { error: 'no such "mailbox"' });
  assert.equal(valueOf('key:"a:b c" x', 'key'), 'a:b c');
  assert.equal(problems('error:"never closed').length, 1);
});

test('what is wrong is named and left out', () => {
  assert.match(problems('colour:red')[0], /There is no “colour”/);
  assert.match(problems('state:ended')[0], /“ended” is no state/);
  assert.match(problems('topic:')[0], /needs a value/);
  assert.match(problems('topic:a topic:b')[0], /once/);
  assert.match(problems('attempt<3')[0], />=/);
  assert.match(problems('attempt>x')[0], /no number/);
  assert.match(problems('age>soon')[0], /no length/);
  assert.match(problems('since:yesterday')[0], /no time/);
  assert.deepEqual(asked('state:ended topic:a'), { topic: 'a' });
});

test('what is written reads the same again', () => {
  for (const text of ['state:dead', 'error:"a b"', 'attempt>=3', 'payload.user.id:42', '"two words"', 'key:"a\\\\b"']) {
    const [term] = parse(text).terms;
    const { start, end, ...again } = parse(write(term)).terms[0];
    const { start: _start, end: _end, ...first } = term;
    assert.deepEqual(again, first);
  }
});

test('a key is set, replaced and dropped', () => {
  assert.equal(withTerm('topic:a words', 'state', 'dead'), 'state:dead topic:a words');
  assert.equal(withTerm('state:dead topic:a', 'state', 'done'), 'state:done topic:a');
  assert.equal(withTerm('state:dead topic:a', 'state', null), 'topic:a');
  assert.equal(withTerm('', 'topic', 'a b'), 'topic:"a b"');
});

test('executions know no words', () => {
  assert.match(parse('refused', EXECUTIONS).problems[0].problem, /stands alone/);
  assert.deepEqual(parameters('ending:failed,lost refused', { grammar: EXECUTIONS }), { ending: 'failed,lost' });
});

test('lengths and instants', () => {
  assert.equal(lengthOf('1h30m'), 5_400_000);
  assert.equal(lengthOf('500ms'), 500);
  assert.equal(lengthOf('5 minutes'), null);
  assert.equal(instantOf('never', now), null);
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
  assert.deepEqual(suggest('en', 2, {}, EXECUTIONS).items.map((item) => item.text), ['ending:']);
});

test('a suggestion takes the place of what was typed', () => {
  const place = suggest('to state:dead', 2);
  assert.deepEqual(choose('to state:dead', place, place.items[0]), { text: 'topic: state:dead', caret: 6 });
  const value = suggest('state:de', 8);
  assert.deepEqual(choose('state:de', value, value.items[0]), { text: 'state:dead ', caret: 11 });
});

test('only what a storage answers by itself is plain', () => {
  assert.ok(isPlain(asked('state:dead topic:a')));
  assert.ok(!isPlain(asked('state:dead words')));
});
