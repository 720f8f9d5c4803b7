// The dashboard on a large storage: lists, counts, pages, filters and bulk actions are bounded. PUNCTUAL_ROWS is the
// number of messages: 200,000 in the test command, a million with `cargo xtask test --full`.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { browser, run, site } from './site.mjs';

const COUNT = Number(process.env.PUNCTUAL_ROWS ?? 200_000);
const SEED = fileURLToPath(new URL('./seed.py', import.meta.url));
/** A program that was not optimized gets more time than the 300 ms of an optimized one. */
const TIMEOUT = 5_000;
let web;
let open;

/** Publishes one message by the program itself, and copies it many times. */
async function seed({ path, storage }) {
  await run(['migrate', '--storage', storage]);
  await run(['messages', 'publish', 'bulk', '{"n":1}', '--queue', 'bulk', '--delay', '30d', '--storage', storage]);
  await promisify(execFile)('python3', [SEED, path, String(COUNT - 1)]);
}

before(
  async () => {
    web = await browser();
    open = await site({ seed });
  },
  { timeout: 180_000 },
);
after(async () => {
  await open?.close();
  await web?.close();
});

test('the overview and the list load immediately, with the count', { timeout: 60_000 }, async (t) => {
  const { page, go, shot, axe, complaints, close } = await web.open(open.address);
  await page.locator('.tiles').waitFor();
  const times = {};
  for (const name of ['overview', 'messages', 'queues', 'dead', 'batches', 'topics', 'storage']) {
    await go('#/workers');
    await page.getByRole('heading', { level: 1, name: 'Workers' }).waitFor();
    const began = performance.now();
    await go(`#/${name}`);
    await page.waitForFunction(
      (wanted) =>
        location.hash.endsWith(wanted) && document.querySelector('main h1') && !document.querySelector('.skeleton'),
      name,
    );
    times[name] = Math.round(performance.now() - began);
    assert.ok(times[name] < TIMEOUT, `${name} took ${times[name]} ms`);
  }
  t.diagnostic(`shown after (ms): ${JSON.stringify(times)}`);
  await go('#/messages');
  await page.getByText(`shown of ${COUNT.toLocaleString('en').slice(0, -2)}`).waitFor();
  await shot('large');
  assert.deepEqual(await axe(), []);
  assert.deepEqual(complaints, []);
  await close();
});

test('pages follow, a filter narrows, and all matches are counted before an action', { timeout: 90_000 }, async () => {
  const { page, go, shot, close } = await web.open(open.address);
  await go('#/messages');
  const rows = page.locator('main tbody tr');
  await rows.first().waitFor();
  const first = await rows.count();
  await page.getByRole('button', { name: 'Load more' }).click();
  await page.waitForFunction((before) => document.querySelectorAll('main tbody tr').length > before, first);
  await go('#/messages?q=topic:rare');
  await page.getByText('shown of 1,000', { exact: false }).waitFor();
  assert.equal(await rows.locator('td:first-child', { hasText: 'bulk' }).count(), 0);
  await page.getByRole('button', { name: /^Select all matching/ }).click();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText(/This cancels .*1,000 messages/).waitFor();
  await dialog.getByText('punctual messages cancel --topic rare').waitFor();
  await shot('large-dry-count');
  await dialog.getByRole('button', { name: /^Cancel \(1,000\)/ }).click();
  await dialog.getByText('1,000 cancelled.').waitFor({ timeout: 60_000 });
  await shot('large-done');
  await close();
});

test('counts above a limit are marked', { timeout: 60_000 }, async () => {
  const { page, go, close } = await web.open(open.address);
  await go('#/messages');
  await page.locator('main tbody tr').first().waitFor();
  await page.getByRole('button', { name: /^Select all matching/ }).click();
  await page.getByRole('button', { name: 'Cancel', exact: true }).click();
  await page.getByRole('dialog').getByText(/This cancels at least 10,000 messages/).waitFor();
  await page.keyboard.press('Escape');
  await close();
});
