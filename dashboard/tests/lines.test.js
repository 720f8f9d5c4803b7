// Lines for the shell: every one has a sample, nothing else makes one, and commands.json holds what they answer. The
// command line's own tests parse that file. After a change: UPDATE=1 node --test dashboard/tests

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as lines from '../lib/lines.js';
import { line } from '../lib/command.js';
import { samples } from './samples.js';

const FOLDER = fileURLToPath(new URL('..', import.meta.url));
const KEPT = fileURLToPath(new URL('./commands.json', import.meta.url));
const made = Object.entries(samples).flatMap(([path, calls]) => {
  const [group, name] = path.split('.');
  return calls.map((given) => lines[group][name](...given));
});

test('every function has a sample, and every sample a function', () => {
  const all = Object.entries(lines).flatMap(([group, functions]) => Object.keys(functions).map((name) => `${group}.${name}`));
  assert.deepEqual(Object.keys(samples).sort(), all.sort());
});

test('commands.json holds what they answer', () => {
  if (process.env.UPDATE) writeFileSync(KEPT, `${JSON.stringify(made, null, 1)}\n`);
  assert.deepEqual(JSON.parse(readFileSync(KEPT, 'utf8')), made);
});

test('nothing else makes a line', () => {
  const files = readdirSync(FOLDER, { recursive: true }).filter((file) => file.endsWith('.js') && !/^(vendor|tests)\b/.test(file) && !['lib/lines.js', 'lib/command.js'].includes(file));
  assert.ok(files.length > 50, 'the folder was read');
  for (const file of files) {
    const text = readFileSync(FOLDER + file, 'utf8');
    assert.doesNotMatch(text, /\bline\(\[|['"`]punctual [a-z]+ /, file);
    assert.doesNotMatch(text, /\b(cli|line)=(\$\{\s*['"`]|")/, file);
  }
});

test('a filter that the command line does not know has no line, for it would be about more', () => {
  assert.equal(lines.messages.matching('cancel', { payload: 'user.id:42' }), null);
});

test('options with a list, a dash or nothing', () => {
  assert.equal(line(['x', '-5'], { tag: ['a', 'b c', ''], by: '-1d', no: null, yes: true }), "punctual x --tag a --tag 'b c' --by=-1d --yes -- -5");
});
