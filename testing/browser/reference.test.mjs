// The API reference, in a real browser with a real server.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, site } from './site.mjs';

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

/** Opens the reference from the dashboard. */
async function reference(options) {
  const view = await web.open(open.address, options);
  await view.page.goto(`${open.address}/api/docs`);
  await view.page.locator('details.operation').first().waitFor();
  return view;
}

for (const theme of ['light', 'dark']) {
  test(`the reference renders accessibly and without errors in ${theme}`, { timeout: 60_000 }, async () => {
    const view = await reference({ theme });
    assert.ok(await view.page.locator('details.operation').count() > 80);
    await view.page.goto(`${open.address}/api/docs#publish_messages`);
    await view.page.locator('#publish_messages h3').first().waitFor();
    await view.shot('reference');
    assert.deepEqual(await view.axe(), []);
    assert.deepEqual(view.complaints, []);
    await view.close();
  });
}

test('an operation is found, opened and tried', { timeout: 60_000 }, async () => {
  const { page, complaints, close } = await reference();
  await page.getByRole('searchbox').fill('get jobs/{name}/upcoming');
  assert.equal(await page.locator('details.operation').count(), 1);
  await page.locator('details.operation > summary').click();
  await page.getByText('Try it', { exact: true }).click();
  await page.locator('.try input').first().fill('nightly');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.try .badge.good').waitFor();
  assert.match(await page.locator('.try pre').innerText(), /Europe\/Warsaw|at/);
  assert.deepEqual(complaints, []);
  await close();
});

test('the reference does not scroll sideways on a phone', { timeout: 60_000 }, async () => {
  const view = await reference({ width: 390, height: 844 });
  for (const one of ['publish_messages', 'create_job', 'get_messages']) {
    await view.page.goto(`${open.address}/api/docs#${one}`);
    await view.page.locator(`#${one} h3`).first().waitFor();
    const over = await view.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `${one} is ${over} px too wide`);
  }
  await view.close();
});
