// Common flows of the dashboard, in a real browser with a real server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, site, until } from './site.mjs';

const PAGES = [
  'overview',
  'jobs',
  'calendar',
  'messages',
  'queues',
  'dead',
  'batches',
  'topics',
  'workers',
  'storage',
  'audit',
  'settings',
];
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

for (const theme of ['light', 'dark']) {
  test(`every page renders accessibly and without errors in ${theme}`, { timeout: 180_000 }, async () => {
    const view = await web.open(open.address, { theme });
    for (const name of PAGES) {
      await view.go(`#/${name}`);
      await view.page.waitForSelector('main h1');
      await view.page.waitForFunction(() => !document.querySelector('.skeleton'));
      await view.shot(name);
      assert.deepEqual(await view.axe(), [], name);
    }
    assert.deepEqual(view.complaints, []);
    await view.close();
  });
}

test('no page scrolls sideways on a phone', { timeout: 120_000 }, async () => {
  const view = await web.open(open.address, { width: 390, height: 844 });
  for (const name of PAGES) {
    await view.go(`#/${name}`);
    await view.page.waitForSelector('main h1');
    await view.page.waitForFunction(() => !document.querySelector('.skeleton'));
    const over = await view.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${name} is ${over} px too wide`);
  }
  await view.shot('phone');
  await view.close();
});

test('a job is found, paused with a reason, resumed and run, and the run is listed', { timeout: 90_000 }, async () => {
  const { page, go, shot, close } = await web.open(open.address);
  await go('#/jobs');
  await page.getByRole('link', { name: 'nightly' }).first().click();
  await page.getByRole('heading', { level: 1, name: /nightly/ }).waitFor();
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await page.getByRole('dialog').getByRole('textbox').first().fill('the partner is down');
  await page.getByRole('dialog').getByRole('button', { name: /pause/i }).last().click();
  await page.getByText('the partner is down').first().waitFor();
  await shot('job-paused');
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor();
  await page.getByRole('button', { name: 'Run now' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Run now' }).click();
  await go('#/jobs/nightly?tab=history');
  await page.getByText('succeeded').first().waitFor();
  await close();
});

test('a failure becomes a dead letter, and its group is sent again', { timeout: 90_000 }, async () => {
  const { page, go, shot, close } = await web.open(open.address);
  const status = await page.evaluate(async () => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch('./api/v1/jobs/broken/trigger', { method: 'POST', headers, body: '{}' });
    return response.status;
  });
  assert.equal(status, 202);
  await until(open.address, 'messages?state=dead', (items) => items.length > 0);
  await go('#/dead');
  await page.getByText('503').first().waitFor();
  await shot('dead-group');
  await page.getByRole('button', { name: /redrive/i }).first().click();
  await page.getByRole('dialog').getByRole('button', { name: /redrive|send/i }).last().click();
  await until(open.address, 'executions?job=broken', (items) => items.length > 1);
  await close();
});

test('the schedule is edited with a preview of the next times', { timeout: 60_000 }, async () => {
  const { page, go, shot, close } = await web.open(open.address);
  await go('#/jobs/nightly');
  await page.getByRole('button', { name: 'Edit' }).click();
  const field = page.getByRole('dialog').getByRole('textbox').first();
  await field.fill('15 4 * * *');
  await page.getByRole('dialog').getByText(/04:15/).first().waitFor();
  await shot('job-edit');
  await page.keyboard.press('Escape');
  await close();
});

test('the storage is fully checked on request', { timeout: 60_000 }, async () => {
  const { page, go, complaints, close } = await web.open(open.address);
  await go('#/storage');
  await page.getByText('the data itself was not checked').waitFor();
  assert.equal(await page.getByText('integrity check', { exact: true }).count(), 0);
  await page.getByRole('button', { name: 'Run full check' }).click();
  await page.getByText('Full check completed').waitFor();
  await page.getByText('integrity check', { exact: true }).waitFor();
  assert.deepEqual(complaints, []);
  await close();
});

test('a viewer can read but not act, and an admin can act', { timeout: 90_000 }, async () => {
  const password = 'a long enough password';
  const users = [
    { name: 'ada', role: 'admin', password },
    { name: 'bob', role: 'viewer', password },
  ];
  const closed = await site({ users });
  try {
    for (const [name, allowed] of [['bob', false], ['ada', true]]) {
      const { page, go, shot, close } = await web.open(closed.address);
      await page.getByLabel('Name').fill(name);
      await page.getByLabel('Password').fill('wrong password');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('the name or the password is wrong').waitFor();
      await page.getByLabel('Password').fill(password);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { level: 1 }).waitFor();
      await go('#/jobs/nightly');
      const button = page.getByRole('button', { name: 'Pause', exact: true });
      await button.waitFor();
      assert.equal(await button.isEnabled(), allowed, name);
      if (!allowed) {
        assert.match(await button.getAttribute('title'), /role operator/);
        await shot('viewer');
      }
      await close();
    }
  } finally {
    await closed.close();
  }
});
