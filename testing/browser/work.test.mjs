// Late, failing and backfilled work, and the settings of a viewer.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, post, site, until } from './site.mjs';

let web;
let open;

before(
  async () => {
    web = await browser();
    open = await site();
  },
  { timeout: 60_000 },
);
after(async () => {
  await open?.close();
  await web?.close();
});

test('a failure is shown live through its retries to the dead letter', { timeout: 90_000 }, async () => {
  const { page, go, shot, axe, complaints, close } = await web.open(open.address);
  await go('#/jobs/fragile');
  await page.getByRole('button', { name: 'Run now' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('punctual jobs trigger fragile').waitFor();
  await dialog.getByRole('button', { name: 'Run now' }).click();
  await go('#/messages?q=job:fragile');
  await page.locator('main tbody tr a.row').first().click();
  await page.waitForFunction(() => /^#\/messages\/.+/.test(location.hash));
  // Without a reload: the page updates itself.
  await page.locator('main .badge', { hasText: /^retrying$/ }).first().waitFor();
  await shot('failure-retrying');
  await page.locator('main .badge', { hasText: /^dead$/ }).first().waitFor({ timeout: 30_000 });
  await page.getByText('503').first().waitFor();
  await shot('failure-dead');
  assert.deepEqual(await axe(), []);
  await go('#/dead');
  await page.getByText('fragile').first().waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test('a backfill is previewed first, and only then run', { timeout: 90_000 }, async () => {
  const { page, go, shot, axe, close } = await web.open(open.address);
  const stored = () =>
    page.evaluate(async () => (await (await fetch('./api/v1/messages?job=hourly')).json()).items.length);
  await go('#/jobs/hourly?do=backfill');
  const dialog = page.getByRole('dialog');
  const button = dialog.getByRole('button', { name: /^(Backfill|Run)/ });
  assert.ok(await button.isDisabled(), 'no preview yet');
  const before = await stored();
  await dialog.getByLabel('At most').fill('5');
  await dialog.getByRole('button', { name: 'Preview', exact: true }).click();
  await dialog.getByText('5 occurrences would run.').waitFor();
  await dialog.getByText(/punctual jobs backfill hourly --from .* --max 5$/).waitFor();
  await shot('backfill-dry-run');
  assert.deepEqual(await axe(), []);
  assert.equal(await stored(), before, 'a preview stores nothing');
  await button.click();
  await page.getByText('5 runs were started.').waitFor();
  const finished = (items) => items.filter((one) => one.ending === 'succeeded').length >= 5;
  await until(open.address, 'executions?job=hourly', finished);
  await go('#/jobs/hourly?tab=history');
  await page.locator('main tbody tr').nth(4).waitFor();
  await shot('backfill-done');
  await close();
});

test('pending messages get another priority, queue and due time, one or all', { timeout: 90_000 }, async () => {
  const { page, go, shot, axe, complaints, close } = await web.open(open.address);
  for (let number = 0; number < 3; number += 1) {
    const response = await post(open.address, 'messages', { topic: 'letter', json: { number }, delay: '1h' });
    assert.equal(response.status, 201);
  }
  const letters = async () => (await (await fetch(`${open.address}/api/v1/messages?topic=letter`)).json()).items;
  const [{ id }] = await letters();
  await go(`#/messages/${id}`);
  await page.getByRole('button', { name: 'Reassign' }).click();
  const dialog = page.getByRole('dialog');
  assert.equal(await dialog.getByLabel('Queue').inputValue(), 'default');
  await dialog.getByLabel('Priority').selectOption('9');
  await dialog.getByText(`punctual messages reassign ${id} --to default --priority 9`).waitFor();
  await shot('reassign-one');
  assert.deepEqual(await axe(), []);
  await dialog.getByRole('button', { name: 'Reassign' }).click();
  await page.getByText('The queue and the priority were changed.').waitFor();
  await until(open.address, 'messages?topic=letter', (items) => items.find((one) => one.id === id).priority === 9);

  await go('#/messages?q=topic:letter');
  await page.getByRole('button', { name: /^Select all/ }).click();
  await page.getByRole('button', { name: 'Reassign' }).click();
  const sure = dialog.getByRole('button', { name: 'Reassign (3)' });
  assert.ok(await sure.isDisabled(), 'without a change the button is disabled');
  await dialog.getByLabel('Queue').fill('bulk');
  await dialog.getByText('punctual messages reassign --topic letter --to bulk').waitFor();
  await shot('reassign-all');
  assert.deepEqual(await axe(), []);
  await sure.click();
  await dialog.getByText(/3 .*reassigned/).waitFor();
  await dialog.getByRole('button', { name: 'Close' }).last().click();
  assert.deepEqual((await letters()).map((one) => [one.queue, one.priority]), [['bulk', 9], ['bulk', 5], ['bulk', 5]]);

  await page.getByRole('button', { name: /^Select all/ }).click();
  await page.getByRole('button', { name: 'Reschedule' }).click();
  await dialog.getByLabel('Delay').fill('3h');
  await dialog.getByRole('button', { name: 'Reschedule (3)' }).click();
  await dialog.getByText(/3 .*rescheduled/).waitFor();
  const due = (await letters()).map((one) => Date.parse(one.due_at) - Date.now());
  assert.ok(due.every((wait) => wait > 2.9 * 3_600_000), `${due}`);
  assert.deepEqual(complaints, []);
  await close();
});

test('the dark theme is stored and readable', { timeout: 60_000 }, async () => {
  const { page, shot, axe, close } = await web.open(open.address, { theme: 'light' });
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  await page.locator('.tiles').waitFor();
  assert.equal(await theme(), 'light');
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  assert.equal(await theme(), 'dark');
  await page.reload();
  await page.locator('.tiles').waitFor();
  assert.equal(await theme(), 'dark');
  await shot('chosen-dark');
  assert.deepEqual(await axe(), []);
  await close();
});

test('all pages work under a URL prefix', { timeout: 60_000 }, async () => {
  const under = await site({ prefix: '/ops/jobs' });
  try {
    const { page, go, complaints, close } = await web.open(under.address);
    await page.locator('.tiles').waitFor();
    await go('#/jobs');
    await page.getByRole('link', { name: /nightly/ }).first().waitFor();
    await page.goto(under.address);
    await page.locator('.tiles').waitFor();
    assert.deepEqual(complaints, []);
    await close();
  } finally {
    await under.close();
  }
});

test('a late job is shown with the reason', { timeout: 180_000 }, async () => {
  const late = await site();
  try {
    // A server with the role api only: no scheduler fires due jobs.
    await late.again(['api']);
    const { page, go, shot, axe, close } = await web.open(late.address);
    await go('#/jobs?sort=next');
    await page.getByText(/^late by /).first().waitFor({ timeout: 30_000 });
    await shot('late-jobs');
    await page.getByRole('link', { name: /^fine/ }).first().click();
    await page.getByText(/It should have fired .* ago\./).waitFor();
    await page.getByText('Check that a process with the role scheduler runs').waitFor();
    await shot('late-why');
    assert.deepEqual(await axe(), []);
    // The overview reports it after a minute.
    await go('#/overview');
    const card = page.locator('section.card', { has: page.getByRole('heading', { name: 'Late jobs' }) });
    await card.getByRole('link', { name: 'fine' }).waitFor({ timeout: 90_000 });
    await shot('late-overview');
    assert.deepEqual(await axe(), []);
    await close();
    await late.again(['api', 'scheduler', 'worker']);
    const again = await web.open(late.address);
    await again.go('#/jobs/fine');
    await again.page.getByText('On time.').waitFor({ timeout: 30_000 });
    await again.close();
  } finally {
    await late.close();
  }
});
