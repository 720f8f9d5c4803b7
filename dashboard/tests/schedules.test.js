// Tests of days in zones, TOML definitions, shell commands and texts about times.

import { test } from 'node:test';
import assert from 'node:assert/strict';
import { addDays, dayOf, hourOf, isDay, isZone, mondayOf, startOf, wall } from '../lib/zone.js';
import { commandLine, shellWord } from '../lib/shell_command.js';
import { shortSchedule, lateBy } from '../lib/job.js';
import { groupPiles } from '../pages/calendar/notes.js';
import { toml } from '../pages/job/toml.js';
import { formatDuration } from '../pages/job/edit.js';
import { missing, scheduleOf } from '../pages/job/schedule.js';

const HOUR = 3_600_000;
const hours = (day, zone) => (startOf(addDays(day, 1), zone) - startOf(day, zone)) / HOUR;

test('a day has 23, 24 or 25 hours', () => {
  assert.equal(hours('2026-03-29', 'Europe/Warsaw'), 23);
  assert.equal(hours('2026-06-01', 'Europe/Warsaw'), 24);
  assert.equal(hours('2026-10-25', 'Europe/Warsaw'), 25);
  assert.equal(hours('2026-04-05', 'Australia/Lord_Howe'), 24.5);
});

test('a day begins at midnight in its zone, or at its first instant', () => {
  assert.equal(new Date(startOf('2026-11-15', 'Europe/Warsaw')).toISOString(), '2026-11-14T23:00:00.000Z');
  assert.equal(new Date(startOf('2026-11-15', 'Asia/Kathmandu')).toISOString(), '2026-11-14T18:15:00.000Z');
  assert.equal(new Date(startOf('2018-11-04', 'America/Sao_Paulo')).toISOString(), '2018-11-04T03:00:00.000Z');
  assert.equal(dayOf(startOf('2026-11-15', 'Pacific/Apia'), 'Pacific/Apia'), '2026-11-15');
  assert.equal(hourOf(Date.parse('2026-11-15T23:30:00Z'), 'Europe/Warsaw'), '00');
});

test('days and zones are checked before they are used', () => {
  assert.ok(isDay('2026-02-28') && !isDay('2026-13-01') && !isDay('today') && !isDay(undefined));
  assert.ok(isZone('Europe/Warsaw') && !isZone('Mars/Base') && !isZone(''));
  assert.equal(mondayOf('2026-11-15'), '2026-11-09');
  assert.equal(mondayOf('2026-11-09'), '2026-11-09');
  assert.equal(wall('not a time'), 'not a time');
});

test('shell words are quoted only when necessary', () => {
  assert.equal(shellWord("it's down"), "'it'\\''s down'");
  assert.equal(
    commandLine(['jobs', 'pause', 'a b'], { reason: 'x; rm -rf /', until: null, 'dry-run': true, no: false }),
    "punctual jobs pause 'a b' --reason 'x; rm -rf /' --dry-run",
  );
});

test('a definition becomes a TOML table', () => {
  assert.equal(
    toml({
      name: 'a.b',
      cron: '0 2 * * *',
      retry: 3,
      tags: ['x'],
      http: { url: 'https://e.org/"q"', method: 'POST' },
      payload: null,
    }),
    '[jobs."a.b"]\ncron = "0 2 * * *"\nretry = 3\ntags = ["x"]\n' +
      'http = { url = "https://e.org/\\"q\\"", method = "POST" }',
  );
});

test('durations are formatted as they are parsed', () => {
  assert.equal(formatDuration(90_000), '1m 30s');
  assert.equal(formatDuration(86_400_000), '1d');
  assert.equal(formatDuration(1_500), '1s 500ms');
  assert.equal(formatDuration(0), '0s');
});

test('a schedule is previewed only when it is complete', () => {
  const empty = { cron: ' ', zone: '', every: '', at: '' };
  assert.equal(scheduleOf({ ...empty, kind: 'cron' }), null);
  assert.deepEqual(scheduleOf({ ...empty, kind: 'cron', cron: ' 0 2 * * * ', zone: 'UTC' }), {
    cron: '0 2 * * *',
    zone: 'UTC',
  });
  assert.deepEqual(scheduleOf({ ...empty, kind: 'every', every: '5m', zone: 'UTC' }), { every: '5m' });
});

test('times are compared as instants, however they are written', () => {
  const [now, then] = [
    [{ at: '2026-11-16T01:00:00Z' }, { at: '2026-11-17T01:00:00Z' }],
    [{ at: '2026-11-16T01:00:00.000Z' }, { at: '2026-11-16T13:00:00Z' }],
  ];
  assert.deepEqual([...missing(now, then)], ['2026-11-17T01:00:00Z']);
  assert.deepEqual([...missing(then, now)], ['2026-11-16T13:00:00Z']);
});

test('a job is late only when it should fire', () => {
  const now = Date.parse('2026-11-15T12:00:00Z');
  const due = (next_at, phase = 'active') => lateBy({ phase, next_at }, now);
  assert.equal(due('2026-11-15T11:59:58Z'), 0);
  assert.equal(due('2026-11-15T11:59:00Z'), 60_000);
  assert.equal(due('2026-11-15T11:59:00Z', 'paused'), 0);
  assert.equal(due(null), 0);
});

test('the short schedule leaves out the zone shown beside it', () => {
  assert.equal(shortSchedule({ in_words: 'every 20s, counted from 1970-01-01T00:00:00Z', zone: null }), 'every 20s');
  assert.equal(
    shortSchedule({ in_words: 'at 02:00, every day, Europe/Warsaw; not at 02:30 in spring', zone: 'Europe/Warsaw' }),
    'at 02:00, every day',
  );
});

test('pile-ups of the same jobs are grouped', () => {
  const runs = ['10:00:01', '10:01:01', '10:02:01']
    .flatMap((at) => ['a', 'b'].map((job) => ({ job, at: `2026-11-16T${at}Z` })))
    .concat({ job: 'c', at: '2026-11-16T10:02:30Z' });
  const piles = ['10:00', '10:01', '10:02'].map((at, index) => ({ at: `2026-11-16T${at}:00Z`, count: 5 + index }));
  assert.deepEqual(
    groupPiles(piles, runs).map(({ names, minutes, most }) => [names.length, minutes, most]),
    [
      [3, 1, 7],
      [2, 2, 6],
    ],
  );
});
