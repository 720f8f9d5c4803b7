// Tests of CLI commands: each function has a sample, no other file builds commands, commands.json holds the results.
// Tests of the command line parse that file. After a change: UPDATE=1 node --test dashboard/tests

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as commands from '../lib/cli_commands.js';
import { commandLine } from '../lib/shell_command.js';
import { samples } from './samples.js';

const FOLDER = fileURLToPath(new URL('..', import.meta.url));
const COMMANDS_FILE = fileURLToPath(new URL('./commands.json', import.meta.url));
const built = Object.entries(samples).flatMap(([path, calls]) => {
  const [group, name] = path.split('.');
  return calls.map((args) => commands[group][name](...args));
});

test('every function has a sample, and every sample a function', () => {
  const all = Object.entries(commands).flatMap(([group, functions]) =>
    Object.keys(functions).map((name) => `${group}.${name}`),
  );
  assert.deepEqual(Object.keys(samples).sort(), all.sort());
});

test('commands.json holds the commands', () => {
  if (process.env.UPDATE) writeFileSync(COMMANDS_FILE, `${JSON.stringify(built, null, 1)}\n`);
  assert.deepEqual(JSON.parse(readFileSync(COMMANDS_FILE, 'utf8')), built);
});

test('no other file builds a command', () => {
  const files = readdirSync(FOLDER, { recursive: true }).filter(
    (file) =>
      file.endsWith('.js') &&
      !/^(vendor|tests)\b/.test(file) &&
      !['lib/cli_commands.js', 'lib/shell_command.js'].includes(file),
  );
  assert.ok(files.length > 50, 'the folder was read');
  for (const file of files) {
    const text = readFileSync(FOLDER + file, 'utf8');
    assert.doesNotMatch(text, /\bcommandLine\(\[|['"`]punctual [a-z]+ /, file);
    assert.doesNotMatch(text, /\b(cli|command)=(\$\{\s*['"`]|")/, file);
  }
});

test('a filter that the command line does not have gives no command, which would match more', () => {
  assert.equal(commands.messages.matching('cancel', { payload: 'user.id:42' }), null);
});

test('options with a list, a dash or nothing', () => {
  assert.equal(
    commandLine(['x', '-5'], { tag: ['a', 'b c', ''], by: '-1d', no: null, yes: true }),
    "punctual x --tag a --tag 'b c' --by=-1d --yes -- -5",
  );
});
