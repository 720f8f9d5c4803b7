// One call or more of every function that makes a line for the shell. What they answer is kept in commands.json.

const AT = '2026-03-02T07:00:00Z';
const ID = '01jn8v2f5h000000000000000a';
const HOOK = { id: ID, url: 'https://example.org/hook', enabled: true };
const ADA = { name: 'ada', role: 'viewer', disabled: false };
const FILTER = { state: 'dead', phase: 'retrying', queue: 'mail', topic: 'send-email', key: "o'brien", job: 'nightly', batch: ID, error: 'HTTP 503', attempt_min: 3, since: AT, until: AT, search: 'two words' };
const JOB = { name: 'nightly', description: 'Sums up the day', tags: ['money', 'night'], cron: '30 2 * * *', zone: 'Europe/Warsaw', queue: 'reports', overlap: 'queue_one', misfire: 'fire_once', retry: 3, timeout: '30s', payload: { day: 'today' } };

/** The arguments of each call, by the path of the function in lib/lines.js. */
export const samples = {
  'jobs.trigger': [['nightly'], ['a b', { ignore_overlap: true, payload: { day: "it's" } }], ['nightly', { payload: 0 }]],
  'jobs.pause': [['nightly'], ['nightly', { reason: 'the partner is down' }], ['nightly', { reason: '-; rm -rf /', until: AT }]],
  'jobs.resume': [['nightly']],
  'jobs.skip': [['nightly'], ['nightly', AT]],
  'jobs.cursor': [['nightly'], ['nightly', AT]],
  'jobs.reset': [['nightly'], ['nightly', 'schedule']],
  'jobs.edit': [['nightly'], ['nightly', { cron: '15 4 * * *', zone: 'UTC', retry: 0, timeout: null, misfire: 'fire_all' }], ['nightly', { every: '5m', timeout: '1m 30s' }]],
  'jobs.backfill': [['nightly'], ['nightly', { from: AT, to: AT, which: 'missing', max: 100, order: 'oldest', dry_run: true }], ['nightly', { from: AT, to: AT, which: 'all', max: 5, order: 'newest', dry_run: false }]],
  'jobs.remove': [['nightly'], ['-odd']],
  'jobs.create': [[], [{ ...JOB, http: { url: 'https://example.org/hook', method: 'POST' } }], [{ ...JOB, http: { url: 'https://example.org/hook', method: 'GET' } }], [{ name: 'often', every: '5m', topic: 'tidy' }], [{ name: 'once', at: AT, publish: { topic: 'greet' } }], [{ name: 'report', cron: '@daily', command: { program: '/usr/local/bin/report', args: ['--fast', 'a b', '-'] } }]],
  'planned.pause': [['remind', 'order-7'], ['remind', '-7', { reason: 'the partner is down' }]],
  'planned.resume': [['remind', 'order-7']],
  'planned.trigger': [['remind', "it's 7"]],
  'messages.show': [[ID]],
  'messages.why': [[ID]],
  'messages.publish': [[{}], [{ topic: 'greet', kind: 'json', body: '{"hello":"world"}', headers: { 'x-by': 'a b', 'x-sum': '1=1' }, key: 'k', dedupe: 'd', queue: 'mail', priority: '9', delay: '5m', retries: '2', timeout: '30s', transport: 'rabbit' }], [{ topic: 'greet', kind: 'text', body: '-12' }], [{ topic: 'greet', kind: 'text', body: '@home' }], [{ topic: 'greet', kind: 'base64', body: 'AAEC' }], [{ topic: 'greet', kind: 'json', body: '{}', isWhole: false, priority: 0 }]],
  'messages.some': [['redrive', [ID, ID], { reason: 'fixed' }], ['cancel', [ID]], ['discard', [ID]], ['delete', [ID]], ['reschedule', [ID]], ['reschedule', [ID, ID], { delay: '1h', reason: 'later' }], ['reschedule', ['ID'], { at: AT }], ['reassign', [ID]], ['reassign', [ID], { to: 'bulk', priority: 0, reason: 'later' }], ['reassign', [ID], { priority: 9 }]],
  'messages.matching': [...['redrive', 'cancel', 'reschedule', 'reassign', 'discard'].flatMap((verb) => [[verb, {}], [verb, FILTER, { reason: 'why not' }]]), ['reschedule', { topic: 'greet' }, { at: AT }]],
  'dead.sample': [[ID]],
  'dead.redrive': [['4f1d'], ['4f1d', 'the partner is back']],
  'dead.discard': [['4f1d'], ['4f1d', 'nobody needs it']],
  'queues.pause': [['mail'], ['mail', { reason: 'too fast', until: AT }]],
  'queues.resume': [['mail']],
  'queues.concurrency': [['mail'], ['mail', '20']],
  'queues.purge': [['mail'], ['mail', { reason: 'a test' }]],
  'batches.cancel': [[ID]],
  'workers.quiet': [[ID]],
  'workers.wake': [[ID]],
  'subscriptions.pause': [['00ff00ff00ff00ff']],
  'subscriptions.resume': [['00ff00ff00ff00ff']],
  'users.add': [[], ['ada', 'operator']],
  'users.change': [[ADA], [ADA, { role: 'admin', password: 'x', disabled: true }], [{ ...ADA, disabled: true }, { role: 'viewer', password: '', disabled: false }]],
  'users.remove': [['ada']],
  'tokens.create': [[], [{ name: 'a deploy', scopes: ['read', 'operate'], expires_in: '90d' }], [{ name: 'worker', scopes: ['work'], queues: ['python', '*'] }]],
  'tokens.revoke': [[ID]],
  'webhooks.add': [[], [{ url: HOOK.url, events: ['message.dead', 'job.*'], filter: { job: 'nightly', topic: 't', queue: 'q' } }]],
  'webhooks.edit': [[HOOK], [HOOK, { url: HOOK.url, events: ['*'], filter: { job: 'nightly' }, enabled: false }], [{ ...HOOK, enabled: false, filter: { job: 'nightly' } }, { url: HOOK.url, events: ['*'], filter: {}, enabled: true }]],
  'webhooks.test': [[ID]],
  'webhooks.deliveries': [[ID]],
  'webhooks.remove': [[ID]],
  'system.doctor': [[]],
  'system.configuration': [[]],
  'system.greeting': [[]],
};
