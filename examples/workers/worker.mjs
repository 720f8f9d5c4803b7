// HTTP worker for Punctual, with Node 20 and no packages: claims, extends its lease, reports progress, settles.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const {
  PUNCTUAL_URL: url = 'http://127.0.0.1:8080',
  PUNCTUAL_QUEUE: queue = 'node',
  PUNCTUAL_TOKEN: token,
} = process.env;
const lease = Number(process.env.PUNCTUAL_LEASE ?? 30);
const worker = randomUUID(); // new at every start
const stopping = new AbortController();

async function call(path, body = {}, until = []) {
  const headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const signal = AbortSignal.any([AbortSignal.timeout(90_000), ...until]);
  const request = { method: 'POST', headers, body: JSON.stringify({ worker, ...body }), signal };
  const response = await fetch(`${url}/api/v1/work/${path}`, request);
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${text}`);
  return text ? JSON.parse(text) : null;
}

const handlers = {
  greet: ({ body }) => ({ greeting: `hello, ${body.name}` }),
  async count({ body, progress, signal }) {
    for (let number = 1; number <= body.to; number += 1) {
      await sleep(body.seconds * 1_000, undefined, { signal });
      await progress(Math.floor((100 * number) / body.to), `at ${number}`);
    }
    return { counted: body.to };
  },
  flaky({ attempt }) {
    if (attempt === 1) throw new Error('the first attempt always fails');
  },
};

async function handle(item) {
  const held = { message: item.message.id, token: item.lease.token };
  const over = new AbortController(); // lost, or no longer wanted
  const keep = setInterval(async () => {
    const response = await call('extend', { leases: [held], lease: `${lease}s` }).catch(() => null);
    if (response && response.items[0].state !== 'held') over.abort();
  }, (lease * 1_000) / 3);
  const progress = (percent, note) => call('progress', { ...held, percent, note });
  let ended;
  try {
    const { topic, body } = item.message;
    const result = await handlers[topic]({ body: body.json, attempt: item.attempt, progress, signal: over.signal });
    ended = { outcome: 'done', result };
  } catch (error) {
    ended = { outcome: 'fail', error: String(error) };
  }
  clearInterval(keep);
  const { state } = await call('settle', { ...held, ...ended });
  console.log(item.message.topic, ended.outcome, state);
}

process.on('SIGTERM', () => stopping.abort());
while (!stopping.signal.aborted) {
  try { // a stop ends the wait; the server releases what it claims for a closed connection
    const { items } = await call('claim', { queue, lease: `${lease}s`, wait: '20s' }, [stopping.signal]);
    for (const item of items) await handle(item);
  } catch (error) { // the server is unavailable: try again
    if (stopping.signal.aborted) break;
    console.log(`no response: ${error.message}`);
    await sleep(1_000);
  }
}
await call('deregister');
