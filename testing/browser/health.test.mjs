// Health on the start page, and the texts of dialogs that delete or redrive.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, post, shell, site, until } from './site.mjs';

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

/** Waits, with a timeout, until the strip contains a text. */
const condition = (page, word, timeout = 30_000) =>
  page.waitForSelector(`.health[data-condition="${word}"]`, { timeout });

const OUTAGE = {
  type: 'about:blank',
  title: 'Service Unavailable',
  status: 503,
  detail: 'the storage does not respond',
};

/** Responds in place of the server, as it does while its storage is unavailable. */
const unavailable = (route) =>
  route.fulfill({ status: 503, contentType: 'application/problem+json', body: JSON.stringify(OUTAGE) });

/** Health of a server whose storage is unavailable. */
const unhealthy = () => ({
  condition: 'unhealthy',
  at: new Date().toISOString(),
  reasons: [],
  alerts: [
    {
      kind: 'server',
      text: 'the storage does not respond: connection refused',
      count: 1,
      subjects: [],
      fix: 'look',
    },
  ],
  failing_jobs: [],
  failing_count: 0,
  storage_latency_ms: null,
  last_tick_age_ms: null,
  stale_count: 0,
});

test('the strip is red within five seconds of an outage, and lists show the error', { timeout: 90_000 }, async () => {
  const { page, go, shot, close } = await web.open(open.address);
  await condition(page, 'healthy');
  await page.route('**/api/v1/health', (route) => route.fulfill({ json: unhealthy() }));
  await page.route('**/api/v1/overview', unavailable);
  await condition(page, 'unhealthy', 5_000);
  await page.getByText('The storage does not respond: connection refused').waitFor();
  await page.locator('.notice[role="alert"]').first().waitFor();
  await shot('storage-unavailable');
  await page.route('**/api/v1/jobs*', unavailable);
  await go('#/jobs');
  await page.getByText('Loading failed').waitFor();
  assert.equal(await page.getByText('No jobs yet').count(), 0);
  await close();
});

test('the strip is grey with the age of the last response after five seconds', { timeout: 90_000 }, async () => {
  const { page, shot, close } = await web.open(open.address);
  await condition(page, 'healthy');
  await page.route('**/api/v1/health', () => {});
  await condition(page, 'unknown', 12_000);
  await page.getByText(/The last response is from .* ago\./).waitFor();
  await shot('health-unknown');
  await page.unroute('**/api/v1/health');
  await condition(page, 'healthy');
  await close();
});

test('a job that fails is named in the strip and in the first card', { timeout: 90_000 }, async () => {
  const { page, shot, close } = await web.open(open.address);
  const triggered = await post(open.address, 'jobs/broken/trigger');
  assert.equal(triggered.status, 202);
  await until(open.address, 'messages?state=dead', (items) => items.length > 0);
  await condition(page, 'degraded');
  await page.locator('.health').getByRole('link', { name: /The last run of the job "broken" failed/ }).waitFor();
  const card = page.locator('section.card.failing');
  await card.getByRole('link', { name: 'broken' }).waitFor();
  assert.match(await card.textContent(), /last run/);
  await shot('failing-job');
  await page.getByRole('link', { name: /became (a )?dead letters? in the last hour/ }).click();
  await page.getByRole('heading', { level: 1, name: 'Dead letters' }).waitFor();
  await page.getByRole('button', { name: /^Redrive:/ }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Reason for the audit trail.').waitFor();
  const alignment = await dialog.evaluate(
    (element) => element.parentElement === document.body && getComputedStyle(element.querySelector('p')).textAlign,
  );
  assert.equal(alignment, 'start');
  await shot('redrive-dialog');
  await close();
});

test('the dialog that deletes a job lists what is deleted and requires its name', { timeout: 60_000 }, async () => {
  const job = { name: 'doomed', cron: '0 5 1 1 *', topic: 'nothing', queue: 'nobody' };
  const created = await post(open.address, 'jobs', job);
  assert.equal(created.status, 201, await created.text());
  await post(open.address, 'jobs/doomed/trigger');
  const { page, go, shot, close } = await web.open(open.address);
  await go('#/jobs/doomed?do=delete');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Deletes the job doomed, its whole history, 1 waiting message and no dead letters.').waitFor();
  await dialog.getByText('This cannot be undone.').waitFor();
  const button = dialog.getByRole('button', { name: 'Delete', exact: true });
  assert.ok(await button.isDisabled());
  await dialog.getByLabel('Type doomed to confirm').fill('doomed');
  await shot('delete-dialog');
  await button.click();
  await until(open.address, 'jobs', (items) => items.every((job) => job.name !== 'doomed'));
  await close();
});

/** Responds as a server without jobs and messages. */
const emptied = (more) => async (route) => {
  const response = await route.fetch();
  const overview = await response.json();
  const counts = Object.fromEntries(Object.keys(overview.counts).map((state) => [state, 0]));
  await route.fulfill({ response, json: { ...overview, counts, next: [], running: [], ...more } });
};

test('the first command that an empty page offers succeeds', { timeout: 60_000 }, async () => {
  const { page, shot, close } = await web.open(open.address);
  await page.route('**/api/v1/overview', emptied({}));
  const line = await page.locator('.card', { hasText: 'No jobs yet' }).locator('.cli code').textContent();
  await shot('empty');
  await close();
  await shell(line, open.address);
  const succeeded = (items) => items.some((run) => run.ending === 'succeeded');
  await until(open.address, 'executions?topic=punctual-test', succeeded);
});

test('an application without the test handler does not offer its command', { timeout: 60_000 }, async () => {
  const { page, close } = await web.open(open.address);
  await page.route('**/api/v1/overview', emptied({ handles_test: false }));
  const card = page.locator('.card', { hasText: 'No jobs yet' });
  await card.getByRole('link', { name: 'Create job' }).waitFor();
  await card.getByText('Create a job. Its runs are shown here.').waitFor();
  assert.equal(await card.locator('.cli').count(), 0);
  await close();
});
