// A real server with test data, and a real browser. The program is named by PUNCTUAL_PROGRAM, the browser by
// PUNCTUAL_CHROMIUM; screenshots go to PUNCTUAL_SHOTS. PUNCTUAL_DASHBOARD names a folder whose files replace those in
// the program, so that a change of the dashboard needs no new build.

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join, resolve } from 'node:path';
import { chromium } from 'playwright-core';

const PROGRAM = process.env.PUNCTUAL_PROGRAM ?? '../../target/debug/punctual';
const BROWSER = process.env.PUNCTUAL_CHROMIUM ?? '/usr/bin/chromium';
const FILES = process.env.PUNCTUAL_DASHBOARD;
const SHOTS = process.env.PUNCTUAL_SHOTS ?? '../../target/screenshots';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Configuration of the test jobs: some succeed, one fails, one fails repeatedly. */
const configuration = (target, { prefix, roles }) => `
[server]
listen = "127.0.0.1:0"
${prefix ? `url_prefix = "${prefix}"` : ''}
${roles ? `roles = ${JSON.stringify(roles)}` : ''}

[http]
allow = ["127.0.0.1"]

[jobs.fine]
description = "Responds immediately"
every = "2s"
http = { url = "${target}/fine", method = "POST" }

[jobs.broken]
description = "Is always refused"
cron = "0 3 1 1 *"
retry = 0
http = { url = "${target}/broken", method = "POST" }

[jobs.fragile]
description = "Is refused three times"
cron = "0 4 1 1 *"
retry = { retries = 2, first = "1s" }
http = { url = "${target}/fragile", method = "POST" }

[jobs.hourly]
cron = "0 * * * *"
http = { url = "${target}/fine", method = "POST" }

[jobs.nightly]
cron = "30 2 * * *"
zone = "Europe/Warsaw"
misfire = "fire_once"
http = { url = "${target}/fine", method = "POST" }
`;

/** Returns 200 for /fine and 503 for all other paths. */
async function target() {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(request.url === '/fine' ? 200 : 503);
    response.end();
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return server;
}

/** Runs a server until it is stopped; returns its address. */
async function serve(folder, file, storage) {
  const line = ['serve', '--config', file, '--storage', storage];
  const child = spawn(PROGRAM, line, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
  const address = await printed(child, /http:\/\/127\.0\.0\.1:\d+/);
  const stop = async () => {
    const ended = new Promise((done) => { child.once('exit', done); });
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), 30_000);
    const code = await ended;
    clearTimeout(timer);
    if (code !== 0) throw new Error(`the server did not stop when it was asked to; it ended with ${code}`);
  };
  return { address, stop };
}

/** Starts a server; `users` enables password logins, and `seed` fills its storage before it starts. */
export async function site({ users = [], extra = '', prefix = '', seed } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'punctual-browser-'));
  const called = await target();
  const file = join(folder, 'punctual.toml');
  const path = join(folder, 'punctual.db');
  const storage = `sqlite:${path}`;
  const auth = users.length ? '\n[auth]\nmode = "password"\n' : '';
  const configure = (how) => {
    const jobs = configuration(`http://127.0.0.1:${called.address().port}`, how);
    writeFileSync(file, jobs + auth + extra);
  };
  configure({ prefix });
  if (seed) await seed({ path, storage });
  let server = await serve(folder, file, storage);
  // The server has created the file; no login is possible before.
  for (const user of users) {
    await run(['users', 'add', user.name, user.role, '--storage', storage], user.password);
  }
  const site = {
    address: server.address + prefix,
    storage,
    /** Stops the server and starts it again in other roles, on the same storage. */
    again: async (roles) => {
      await server.stop();
      configure({ prefix, roles });
      server = await serve(folder, file, storage);
      site.address = server.address + prefix;
    },
    close: async () => {
      await server.stop();
      called.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return site;
}

/** Runs the program with a command line, which must succeed. */
export async function run(line, input = '') {
  const child = spawn(PROGRAM, line, { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdin.end(`${input}\n`);
  let text = '';
  child.stderr.on('data', (part) => { text += part; });
  const code = await new Promise((ended) => { child.once('exit', ended); });
  if (code !== 0) throw new Error(`punctual ${line[0]} ended with ${code}: ${text}`);
}

/** Runs a command line that the page shows; `punctual` is the program, and uses this server. */
export async function shell(line, address) {
  const folder = mkdtempSync(join(tmpdir(), 'punctual-line-'));
  symlinkSync(resolve(PROGRAM), join(folder, 'punctual'));
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, PUNCTUAL_SERVER: address };
  const child = spawn('sh', ['-c', line], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let text = '';
  child.stderr.on('data', (part) => { text += part; });
  const code = await new Promise((ended) => { child.once('exit', ended); });
  rmSync(folder, { recursive: true, force: true });
  if (code !== 0) throw new Error(`${line} ended with ${code}: ${text}`);
}

/** Sends a POST request to the API. */
export const post = (address, path, body = {}) =>
  fetch(`${address}/api/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** Requests a list repeatedly, with a timeout, until its items match. */
export async function until(address, path, fits, timeout = 30_000) {
  const end = Date.now() + timeout;
  for (;;) {
    const { items } = await (await fetch(`${address}/api/v1/${path}`)).json();
    if (fits(items)) return items;
    if (Date.now() > end) throw new Error(`${path} did not come to fit: ${JSON.stringify(items).slice(0, 500)}`);
    await new Promise((later) => { setTimeout(later, 200); });
  }
}

/** Waits, with a timeout, until the output of the program matches. */
function printed(child, pattern) {
  return new Promise((resolve, reject) => {
    let text = '';
    const timer = setTimeout(() => reject(new Error(`the server did not print ${pattern}: ${text}`)), 30_000);
    const collect = (part) => {
      text += part;
      const found = text.match(pattern);
      if (found) {
        clearTimeout(timer);
        resolve(found[0]);
      }
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.once('exit', (code) => {
      clearTimeout(timer);
      reject(new Error(`the server ended with ${code}: ${text}`));
    });
  });
}

const KINDS = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Serves files of a folder in place of those in the program, with the headers of the server. */
async function fromFolder(context, address) {
  const base = address.endsWith('/') ? address : `${address}/`;
  const policy = (await fetch(base)).headers.get('content-security-policy');
  await context.route((url) => url.href.startsWith(base) && !url.href.startsWith(`${base}api/`), (route) => {
    const name = new URL(route.request().url()).pathname.slice(new URL(base).pathname.length) || 'index.html';
    const file = join(FILES, name);
    if (!existsSync(file)) return route.continue();
    const headers = { 'content-type': KINDS[extname(file)] ?? 'text/plain', 'content-security-policy': policy };
    return route.fulfill({ body: readFileSync(file), headers });
  });
}

/** A browser with helpers. An error in the console of a page fails the tests that check `complaints`. */
export async function browser() {
  const launched = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox'] });
  const open = async (address, { theme = 'light', width = 1360, height = 900 } = {}) => {
    const context = await launched.newContext({ viewport: { width, height }, colorScheme: theme, bypassCSP: false });
    if (FILES) await fromFolder(context, address);
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    const complaints = [];
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('console', (line) => {
      if (line.type() === 'error' && !/ERR_|status of/.test(line.text())) complaints.push(line.text());
    });
    page.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(address) && !url.startsWith('data:')) complaints.push(`requests another host: ${url}`);
    });
    await page.goto(address.endsWith('/') ? address : `${address}/`);
    return {
      page,
      complaints,
      go: (hash) => page.evaluate((to) => { location.hash = to; }, hash),
      shot: async (name) => {
        mkdirSync(SHOTS, { recursive: true });
        await page.screenshot({ path: join(SHOTS, `${name}-${theme}.png`) });
      },
      axe: async () => {
        // By the debugger and not by a script tag, which the page's policy forbids.
        await page.evaluate(AXE);
        const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
        const severe = found.violations.filter((one) => ['serious', 'critical'].includes(one.impact));
        return severe.map((one) => `${one.id}: ${one.nodes[0]?.html}`);
      },
      close: () => context.close(),
    };
  };
  return { open, close: () => launched.close() };
}
