// Every line for the shell that the dashboard shows, and nothing else makes one. Each function has a sample in
// tests/samples.js; the command line's own tests read what comes out, so that no line can drift from its parser.

import { both, line } from './command.js';

/** What stands where nothing was typed yet. */
const OPEN = '…';
const DELAY = '5m';
/** A content that is longer than this is shown as a file. */
const CONTENT_MAX = 200;

const json = (value) => (value === undefined || value === null ? null : JSON.stringify(value));

export const jobs = {
  trigger: (name, { ignore_overlap, payload } = {}) => line(['jobs', 'trigger', name], { 'ignore-overlap': ignore_overlap, payload: json(payload) }),
  pause: (name, { reason, until } = {}) => line(['jobs', 'pause', name], { reason: reason || OPEN, until }),
  resume: (name) => line(['jobs', 'resume', name]),
  skip: (name, at) => line(['jobs', 'skip', name], { at }),
  cursor: (name, to) => line(['jobs', 'cursor', name], { to: to || 'now' }),
  reset: (name, field) => line(['jobs', 'reset', name], { field }),
  edit: (name, { cron, every, zone, retry, timeout, misfire } = { cron: OPEN }) => line(['jobs', 'edit', name], { cron, every, zone, retry, timeout: timeout === null ? 'none' : timeout, misfire }),
  backfill: (name, { from, to, which, max, order, dry_run } = { dry_run: true }) => line(['jobs', 'backfill', name], { from: from || '-1d', to, all: which === 'all', max: max === 100 ? null : max, newest: order === 'newest', 'dry-run': dry_run }),
  remove: (name) => line(['jobs', 'delete', name]),
  create: ({ name, description, tags, cron, every, at, zone, topic, http, publish, command, queue, overlap, misfire, retry, timeout, payload } = { name: 'NAME', cron: '0 3 * * *', http: { url: 'https://example.org/' } }) => line(['jobs', 'create', name], {
    description, tag: tags, cron, every, at, zone, topic, url: http?.url, method: http?.method === 'POST' ? null : http?.method, publish: publish?.topic,
    program: command?.program, arg: command?.args, queue, overlap, misfire, retry, timeout, payload: json(payload),
  }),
};

/** One-time jobs that an application planned, by name and key. */
export const planned = {
  pause: (name, key, { reason } = {}) => line(['jobs', 'planned', 'pause', name], { key, reason: reason || OPEN }),
  resume: (name, key) => line(['jobs', 'planned', 'resume', name], { key }),
  trigger: (name, key) => line(['jobs', 'planned', 'trigger', name], { key }),
};

const dashed = (filter) => Object.fromEntries(Object.entries(filter).map(([name, value]) => [name.replaceAll('_', '-'), value]));
const USUAL = { cancel: 'pending,running', redrive: 'dead', reschedule: 'pending', reassign: 'pending' };

/** A content as one word; what is long, hidden or would be read as a file's name is left to a file. */
function contentOf(kind, body, isWhole = true) {
  if (kind === 'none') return [];
  return !isWhole || kind === 'base64' || body.length > CONTENT_MAX || body === '-' || body.startsWith('@') ? ['@content'] : [body];
}

/** Text that would be taken for JSON has to say that it is text. */
const typeOf = (kind, body) => {
  if (kind !== 'text') return null;
  try { JSON.parse(body); return 'text/plain'; } catch { return null; }
};

/** The options of a verb, with an example of what it cannot do without. */
const optionsOf = (verb, options) => {
  if (verb === 'reschedule') { const { delay, at, ...rest } = options; return { ...(at ? { at } : { delay: delay || DELAY }), ...rest }; }
  if (verb === 'reassign') { const { to, priority, ...rest } = options; return { to: to || (priority === undefined ? 'QUEUE' : null), priority, ...rest }; }
  return options;
};

export const messages = {
  show: (id) => line(['messages', 'show', id]),
  why: (id) => line(['messages', 'why', id]),
  /** `fields` as the dialog that sends has them; headers as an object. */
  publish: ({ topic, kind = 'none', body = '', isWhole, headers = {}, key, dedupe, queue, priority, delay, retries, timeout, transport }) => line(['messages', 'publish', topic || 'TOPIC', ...contentOf(kind, body, isWhole)], {
    key, dedupe, queue, priority, delay, retry: retries, timeout, via: transport, header: Object.entries(headers).map(([name, value]) => `${name}=${value}`), 'content-type': typeOf(kind, body),
  }),
  /** One verb for some: `ids` may be cut, which an ellipsis says. */
  some: (verb, ids, options = {}) => line(['messages', verb === 'discard' ? 'delete' : verb, ...ids], optionsOf(verb, options)),
  /** One verb for all that match; null when the command line cannot say it. */
  matching: (verb, filter, options = {}) => {
    if (filter.payload) return null;
    if (verb === 'discard') {
      const { state, ...rest } = filter;
      return line(['dead', 'discard'], { ...dashed(rest), all: Object.keys(rest).length === 0, ...options });
    }
    const wanted = Object.keys(filter).length === 0 ? { state: USUAL[verb] } : filter;
    return line(['messages', verb], { ...dashed(wanted), ...optionsOf(verb, options) });
  },
};

export const dead = {
  sample: (id) => messages.some('redrive', [id]),
  redrive: (group, reason) => line(['dead', 'redrive'], { group, reason }),
  discard: (group, reason) => line(['dead', 'discard'], { group, reason }),
};

export const queues = {
  pause: (name, { reason, until } = {}) => line(['queues', 'pause', name], { reason: reason || OPEN, until }),
  resume: (name) => line(['queues', 'resume', name]),
  concurrency: (name, max) => line(['queues', 'concurrency', name, /^\d+$/.test(max) ? max : 10]),
  purge: (name, { reason } = {}) => line(['queues', 'purge', name], { reason }),
};

export const batches = { cancel: (id) => line(['messages', 'cancel'], { batch: id }) };

export const workers = { quiet: (process) => line(['workers', 'quiet', process]), wake: (process) => line(['workers', 'wake', process]) };

export const subscriptions = { pause: (id) => line(['subscriptions', 'pause', id]), resume: (id) => line(['subscriptions', 'resume', id]) };

export const users = {
  add: (name, role) => line(['users', 'add', name || 'NAME', role ?? 'viewer']),
  /** Everything that is different, each with its own line. */
  change: (user, { role, password, disabled } = {}) => {
    const lines = [
      role && role !== user.role ? line(['users', 'set-role', user.name, role]) : null,
      password ? line(['users', 'password', user.name]) : null,
      disabled === undefined || disabled === user.disabled ? null : line(['users', disabled ? 'disable' : 'enable', user.name]),
    ].filter(Boolean);
    return lines.length ? both(lines) : line(['users', 'set-role', user.name, user.role]);
  },
  remove: (name) => line(['users', 'delete', name]),
};

export const tokens = {
  create: ({ name, scopes, queues, expires_in } = {}) => line(['tokens', 'create', name || 'NAME'], { scope: scopes?.length ? scopes.join(',') : 'read', queue: queues?.length ? queues.join(',') : undefined, 'expires-in': expires_in }),
  revoke: (id) => line(['tokens', 'revoke', id]),
};

export const webhooks = {
  add: ({ url, events, filter } = {}) => line(['webhooks', 'add', url || 'URL'], { events: events?.join(','), ...filter }),
  edit: (hook, { url, events, filter, enabled } = {}) => {
    const isCleared = filter !== undefined && Object.keys(filter).length === 0 && Object.keys(hook.filter ?? {}).length > 0;
    const edit = line(['webhooks', 'edit', hook.id], { url: url || hook.url, events: events?.join(','), ...filter, 'no-filter': isCleared });
    return enabled === undefined || enabled === hook.enabled ? edit : both([edit, line(['webhooks', enabled ? 'enable' : 'disable', hook.id])]);
  },
  test: (id) => line(['webhooks', 'test', id]),
  deliveries: (id) => line(['webhooks', 'deliveries', id]),
  remove: (id) => line(['webhooks', 'delete', id]),
};

export const system = {
  doctor: () => line(['doctor']),
  configuration: () => line(['config', 'show']),
  greeting: () => line(['messages', 'publish', 'punctual-test', '{"hello":"world"}']),
};
