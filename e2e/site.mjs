// A real server with something to show, and a real browser on it. The program is named by PUNCTUAL_PROGRAM,
// the browser by PUNCTUAL_CHROMIUM; screenshots go to PUNCTUAL_SHOTS.

import { spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const PROGRAM = process.env.PUNCTUAL_PROGRAM ?? '../target/debug/punctual';
const BROWSER = process.env.PUNCTUAL_CHROMIUM ?? '/usr/bin/chromium';
const SHOTS = process.env.PUNCTUAL_SHOTS ?? '../target/screenshots';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What the tests of the dashboard have jobs for: one that works, one that fails, one that is late. */
const configuration = (target) => `
[server]
listen = "127.0.0.1:0"

[http]
allow = ["127.0.0.1"]

[jobs.fine]
description = "Answers at once"
every = "2s"
http = { url = "${target}/fine", method = "POST" }

[jobs.broken]
description = "Is always refused"
cron = "0 3 1 1 *"
retry = 0
http = { url = "${target}/broken", method = "POST" }

[jobs.nightly]
cron = "30 2 * * *"
zone = "Europe/Warsaw"
misfire = "fire_once"
http = { url = "${target}/fine", method = "POST" }
`;

/** Answers /fine with 200 and everything else with 503. */
async function target() {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(request.url === '/fine' ? 200 : 503);
    response.end();
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return server;
}

/** Starts a server; `users` makes it ask for passwords. */
export async function site({ users = [], extra = '' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'punctual-e2e-'));
  const called = await target();
  const file = join(folder, 'punctual.toml');
  const storage = `sqlite:${join(folder, 'punctual.db')}`;
  const auth = users.length ? '\n[auth]\nmode = "password"\n' : '';
  writeFileSync(file, configuration(`http://127.0.0.1:${called.address().port}`) + auth + extra);
  const child = spawn(PROGRAM, ['serve', '--config', file, '--storage', storage], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const address = await said(child, /http:\/\/127\.0\.0\.1:\d+/);
  // The server has made the file; nobody can log in before.
  for (const user of users) {
    await run(['users', 'add', user.name, user.role, '--storage', storage], user.password);
  }
  const close = async () => {
    child.kill('SIGTERM');
    await new Promise((ended) => { child.once('exit', ended); });
    called.close();
    rmSync(folder, { recursive: true, force: true });
  };
  return { address, storage, close };
}

async function run(line, input) {
  const child = spawn(PROGRAM, line, { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(`${input}\n`);
  let text = '';
  child.stderr.on('data', (part) => { text += part; });
  const code = await new Promise((ended) => { child.once('exit', ended); });
  if (code !== 0) throw new Error(`punctual ${line[0]} ended with ${code}: ${text}`);
}

/** Waits, with a bound, until the program says something that fits. */
function said(child, pattern) {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => reject(new Error(`the server did not say ${pattern}: ${text}`)), 30_000);
    const hear = (part) => {
      text += part;
      const found = text.match(pattern);
      if (found) { clearTimeout(timer); resolve(found[0]); }
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.once('exit', (code) => { clearTimeout(timer); reject(new Error(`the server ended with ${code}: ${text}`)); });
  });
}

/** A browser, with helpers. Anything a page complains about fails the test that asks `complaints`. */
export async function browser() {
  const launched = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox'] });
  const open = async (address, { theme = 'light', width = 1360, height = 900 } = {}) => {
    const context = await launched.newContext({ viewport: { width, height }, colorScheme: theme, bypassCSP: false });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    const complaints = [];
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (line) => { if (line.type() === 'error' && !/ERR_|status of/.test(line.text())) complaints.push(line.text()); });
    page.on('request', (request) => { if (!request.url().startsWith(address) && !request.url().startsWith('data:')) complaints.push(`asks another host: ${request.url()}`); });
    await page.goto(address);
    return {
      page, complaints,
      go: (hash) => page.evaluate((to) => { location.hash = to; }, hash),
      shot: async (name) => { mkdirSync(SHOTS, { recursive: true }); await page.screenshot({ path: join(SHOTS, `${name}-${theme}.png`) }); },
      axe: async () => {
        // By the debugger and not by a script tag, which the page's policy forbids.
        await page.evaluate(AXE);
        const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        return found.violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => `${one.id}: ${one.nodes[0]?.html}`);
      },
      close: () => context.close(),
    };
  };
  return { open, close: () => launched.close() };
}
