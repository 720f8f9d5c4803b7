// CLI commands: builds every command that the dashboard shows. Each function has a sample in tests/samples.js, and a
// test of the command line parses the results, so that no command differs from its parser.

import { sequence, commandLine } from './shell_command.js';

/** Placeholder for a value that is not typed yet. */
const OPEN = '…';
const DELAY = '5m';
/** Length in characters from which the payload is shown as a file. */
const CONTENT_MAX = 200;

const json = (value) => (value === undefined || value === null ? null : JSON.stringify(value));

export const jobs = {
  trigger: (name, { ignore_overlap, payload } = {}) =>
    commandLine(['jobs', 'trigger', name], { 'ignore-overlap': ignore_overlap, payload: json(payload) }),
  pause: (name, { reason, until } = {}) => commandLine(['jobs', 'pause', name], { reason: reason || OPEN, until }),
  resume: (name) => commandLine(['jobs', 'resume', name]),
  skip: (name, at) => commandLine(['jobs', 'skip', name], { at }),
  cursor: (name, to) => commandLine(['jobs', 'cursor', name], { to: to || 'now' }),
  reset: (name, field) => commandLine(['jobs', 'reset', name], { field }),
  edit: (name, { cron, every, zone, retry, timeout, misfire } = { cron: OPEN }) =>
    commandLine(['jobs', 'edit', name], {
      cron,
      every,
      zone,
      retry,
      timeout: timeout === null ? 'none' : timeout,
      misfire,
    }),
  backfill: (name, { from, to, which, max, order, dry_run } = { dry_run: true }) =>
    commandLine(['jobs', 'backfill', name], {
      from: from || '-1d',
      to,
      all: which === 'all',
      max: max === 100 ? null : max,
      newest: order === 'newest',
      'dry-run': dry_run,
    }),
  remove: (name) => commandLine(['jobs', 'delete', name]),
  create: (
    {
      name,
      description,
      tags,
      cron,
      every,
      at,
      zone,
      topic,
      http,
      publish,
      command,
      queue,
      overlap,
      misfire,
      retry,
      timeout,
      payload,
    } = { name: 'NAME', cron: '0 3 * * *', http: { url: 'https://example.org/' } },
  ) =>
    commandLine(['jobs', 'create', name], {
      description,
      tag: tags,
      cron,
      every,
      at,
      zone,
      topic,
      url: http?.url,
      method: http?.method === 'POST' ? null : http?.method,
      publish: publish?.topic,
      program: command?.program,
      arg: command?.args,
      queue,
      overlap,
      misfire,
      retry,
      timeout,
      payload: json(payload),
    }),
};

/** Commands for planned one-time jobs, by name and key. */
export const planned = {
  pause: (name, key, { reason } = {}) =>
    commandLine(['jobs', 'planned', 'pause', name], { key, reason: reason || OPEN }),
  resume: (name, key) => commandLine(['jobs', 'planned', 'resume', name], { key }),
  trigger: (name, key) => commandLine(['jobs', 'planned', 'trigger', name], { key }),
};

const dashed = (filter) =>
  Object.fromEntries(Object.entries(filter).map(([name, value]) => [name.replaceAll('_', '-'), value]));
const USUAL = { cancel: 'pending,running', redrive: 'dead', reschedule: 'pending', reassign: 'pending' };

/** The payload as one word; a payload that is long, redacted or would be read as a file name is shown as a file. */
function contentOf(kind, body, isWhole = true) {
  if (kind === 'none') return [];
  return !isWhole || kind === 'base64' || body.length > CONTENT_MAX || body === '-' || body.startsWith('@')
    ? ['@content']
    : [body];
}

/** Content type to pass: a text that parses as JSON needs `text/plain`. */
const typeOf = (kind, body) => {
  if (kind !== 'text') return null;
  try {
    JSON.parse(body);
    return 'text/plain';
  } catch {
    return null;
  }
};

/** Options of a command, with an example for a required option that is not set. */
const optionsOf = (verb, options) => {
  if (verb === 'reschedule') {
    const { delay, at, ...rest } = options;
    return { ...(at ? { at } : { delay: delay || DELAY }), ...rest };
  }
  if (verb === 'reassign') {
    const { to, priority, ...rest } = options;
    return { to: to || (priority === undefined ? 'QUEUE' : null), priority, ...rest };
  }
  return options;
};

export const messages = {
  show: (id) => commandLine(['messages', 'show', id]),
  why: (id) => commandLine(['messages', 'why', id]),
  /** `fields` are those of the send dialog; headers are an object. */
  publish: ({
    topic,
    kind = 'none',
    body = '',
    isWhole,
    headers = {},
    key,
    dedupe,
    queue,
    priority,
    delay,
    retries,
    timeout,
    transport,
  }) =>
    commandLine(['messages', 'publish', topic || 'TOPIC', ...contentOf(kind, body, isWhole)], {
      key,
      dedupe,
      queue,
      priority,
      delay,
      retry: retries,
      timeout,
      via: transport,
      header: Object.entries(headers).map(([name, value]) => `${name}=${value}`),
      'content-type': typeOf(kind, body),
    }),
  /** A command for some messages; a shortened list of ids ends with an ellipsis. */
  some: (verb, ids, options = {}) =>
    commandLine(['messages', verb === 'discard' ? 'delete' : verb, ...ids], optionsOf(verb, options)),
  /** A command for all messages that match; null when the command line has no such filter. */
  matching: (verb, filter, options = {}) => {
    if (filter.payload) return null;
    if (verb === 'discard') {
      const { state, ...rest } = filter;
      return commandLine(['dead', 'discard'], { ...dashed(rest), all: Object.keys(rest).length === 0, ...options });
    }
    const wanted = Object.keys(filter).length === 0 ? { state: USUAL[verb] } : filter;
    return commandLine(['messages', verb], { ...dashed(wanted), ...optionsOf(verb, options) });
  },
};

export const dead = {
  sample: (id) => messages.some('redrive', [id]),
  redrive: (group, reason) => commandLine(['dead', 'redrive'], { group, reason }),
  discard: (group, reason) => commandLine(['dead', 'discard'], { group, reason }),
};

export const queues = {
  pause: (name, { reason, until } = {}) => commandLine(['queues', 'pause', name], { reason: reason || OPEN, until }),
  resume: (name) => commandLine(['queues', 'resume', name]),
  concurrency: (name, max) => commandLine(['queues', 'concurrency', name, /^\d+$/.test(max) ? max : 10]),
  purge: (name, { reason } = {}) => commandLine(['queues', 'purge', name], { reason }),
};

export const batches = { cancel: (id) => commandLine(['messages', 'cancel'], { batch: id }) };

export const workers = {
  quiet: (process) => commandLine(['workers', 'quiet', process]),
  wake: (process) => commandLine(['workers', 'wake', process]),
};

export const subscriptions = {
  pause: (id) => commandLine(['subscriptions', 'pause', id]),
  resume: (id) => commandLine(['subscriptions', 'resume', id]),
};

export const users = {
  add: (name, role) => commandLine(['users', 'add', name || 'NAME', role ?? 'viewer']),
  /** One command for each changed property. */
  change: (user, { role, password, disabled } = {}) => {
    const lines = [
      role && role !== user.role ? commandLine(['users', 'set-role', user.name, role]) : null,
      password ? commandLine(['users', 'password', user.name]) : null,
      disabled === undefined || disabled === user.disabled
        ? null
        : commandLine(['users', disabled ? 'disable' : 'enable', user.name]),
    ].filter(Boolean);
    return lines.length ? sequence(lines) : commandLine(['users', 'set-role', user.name, user.role]);
  },
  remove: (name) => commandLine(['users', 'delete', name]),
};

export const tokens = {
  create: ({ name, scopes, queues, expires_in } = {}) =>
    commandLine(['tokens', 'create', name || 'NAME'], {
      scope: scopes?.length ? scopes.join(',') : 'read',
      queue: queues?.length ? queues.join(',') : undefined,
      'expires-in': expires_in,
    }),
  revoke: (id) => commandLine(['tokens', 'revoke', id]),
};

export const webhooks = {
  add: ({ url, events, filter } = {}) =>
    commandLine(['webhooks', 'add', url || 'URL'], { events: events?.join(','), ...filter }),
  edit: (hook, { url, events, filter, enabled } = {}) => {
    const isCleared =
      filter !== undefined && Object.keys(filter).length === 0 && Object.keys(hook.filter ?? {}).length > 0;
    const edit = commandLine(['webhooks', 'edit', hook.id], {
      url: url || hook.url,
      events: events?.join(','),
      ...filter,
      'no-filter': isCleared,
    });
    return enabled === undefined || enabled === hook.enabled
      ? edit
      : sequence([edit, commandLine(['webhooks', enabled ? 'enable' : 'disable', hook.id])]);
  },
  test: (id) => commandLine(['webhooks', 'test', id]),
  deliveries: (id) => commandLine(['webhooks', 'deliveries', id]),
  remove: (id) => commandLine(['webhooks', 'delete', id]),
};

export const system = {
  doctor: () => commandLine(['doctor']),
  configuration: () => commandLine(['config', 'show']),
  greeting: () => commandLine(['messages', 'publish', 'punctual-test', '{"hello":"world"}']),
};
