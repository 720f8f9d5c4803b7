// One-time jobs that an application planned: listed on the page of jobs, paused, resumed and run from the page of their
// message.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { browser, run, site } from './site.mjs';

const ID = '01a1effb-557e-7000-a8da-129c11f5d47a';
let web;
let open;

/** A one-time job that an application planned for the next day, as the lines of an export. */
async function plan({ path, storage }) {
  const now = new Date();
  const due = new Date(now.getTime() + 86_400_000).toISOString();
  const message = {
    id: ID,
    topic: 'punctual-test',
    queue: 'default',
    priority: 5,
    due_at: due,
    created_at: now.toISOString(),
    source: 'deferred',
    key: 'order-7',
    dedupe: null,
    exclusive: false,
    body: { content_type: 'application/json', text: 'null' },
    headers: {},
    trail: { correlation: null, causation: null, sequence: 0 },
    occurrence: { job: 'punctual-test', nominal: due },
    terms: null,
  };
  const record = {
    message,
    state: 'pending',
    due_at: due,
    attempt: 0,
    crashes: 0,
    snoozes: 0,
    lease: null,
    cancel_requested: false,
    error: null,
    dead: null,
    ended_at: null,
  };
  const lines = [
    { punctual: { format: 1, exported_at: now.toISOString() } },
    { message: record },
    { end: { jobs: 0, messages: 1 } },
  ];
  const file = `${path}.jsonl`;
  writeFileSync(file, `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`);
  await run(['import', '--storage', storage, file]);
}

before(
  async () => {
    web = await browser();
    open = await site({ seed: plan });
  },
  { timeout: 60_000 },
);
after(async () => {
  await open?.close();
  await web?.close();
});

// spec: T-75
test('planned one-time jobs are a tab of the jobs page and lead to their messages', { timeout: 90_000 }, async () => {
  const { page, go, shot, axe, complaints, close } = await web.open(open.address);
  await go('#/jobs');
  await page.getByRole('link', { name: 'One-time jobs', exact: true }).click();
  await page.getByRole('link', { name: /^punctual-test/ }).waitFor();
  await page.getByText('order-7', { exact: true }).waitFor();
  await shot('planned-list');
  assert.deepEqual(await axe(), []);
  await page.getByRole('searchbox').fill('nothing like it');
  await page.getByText('No one-time job matches').waitFor();
  await page.getByRole('button', { name: 'Clear the search' }).click();
  await page.getByRole('link', { name: /^punctual-test/ }).click();
  await page.waitForURL((url) => url.hash === `#/messages/${ID}`);
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
  await go('#/jobs/punctual-test');
  await page.getByText(/1 one-time job of this name is planned/).waitFor();
  await page.getByRole('link', { name: 'Show one-time jobs with this name' }).click();
  await page.getByText('order-7', { exact: true }).waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

// spec: T-75
test('a planned one-time job is paused with a reason, resumed and run now', { timeout: 90_000 }, async () => {
  const { page, go, shot, axe, complaints, close } = await web.open(open.address);
  await go(`#/messages/${ID}`);
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  const pause = dialog.getByRole('button', { name: 'Pause', exact: true });
  assert.ok(await pause.isDisabled(), 'a pause has a reason');
  await dialog.getByLabel('Reason').fill('the partner is down');
  const line = "punctual jobs planned pause punctual-test --key order-7 --reason 'the partner is down'";
  await dialog.getByText(line).waitFor();
  await shot('planned-pause');
  assert.deepEqual(await axe(), []);
  await pause.click();
  await page.getByText(/is paused .*the partner is down/).first().waitFor();
  await shot('planned-paused');
  await page.getByRole('button', { name: 'Resume', exact: true }).click();
  await dialog.getByRole('button', { name: 'Resume', exact: true }).click();
  await page.getByRole('button', { name: 'Run now', exact: true }).click();
  await dialog.getByText('punctual jobs planned trigger punctual-test --key order-7').waitFor();
  await dialog.getByRole('button', { name: 'Run now', exact: true }).click();
  await page.locator('main .badge', { hasText: /^done$/ }).first().waitFor();
  assert.deepEqual(complaints, []);
  await close();
});
