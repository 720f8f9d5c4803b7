// API client: JSON requests and responses; an error response becomes a `Problem`.

import { reviveExact } from './exact_json.js';

const BASE = './api/v1';
let csrf = null;

/** An error response of the server; `fields` holds the problem of each invalid field. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? document.title ?? `the server responded with status ${status}`);
    this.status = status;
    this.title = document.title;
    this.fields = Object.fromEntries((document.errors ?? []).map((error) => [error.field, error.problem]));
  }
}

/** Stores the CSRF token that requests which change something must send. */
export function setCsrfToken(session) {
  csrf = session.csrf ?? null;
}

function query(parameters) {
  const kept = Object.entries(parameters ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== '',
  );
  return kept.length === 0 ? '' : `?${new URLSearchParams(kept)}`;
}

async function call(method, path, { body, parameters, headers, signal, exact } = {}) {
  const sent = { accept: 'application/json', ...headers };
  if (body !== undefined) sent['content-type'] = 'application/json';
  if (method !== 'GET' && csrf) sent['x-csrf-token'] = csrf;
  let response;
  try {
    response = await fetch(`${BASE}${path}${query(parameters)}`, {
      method,
      headers: sent,
      signal,
      credentials: 'same-origin',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: 'The server does not respond.' });
  }
  const text = await response.text();
  let content = null;
  try {
    content = text ? JSON.parse(text, exact ? reviveExact : undefined) : null;
  } catch {
    content = { detail: text.slice(0, 300) };
  }
  if (!response.ok) {
    if (response.status === 401) dispatchEvent(new Event('punctual:signed-out'));
    throw new Problem(response.status, content ?? {});
  }
  return content;
}

export const get = (path, parameters, options) => call('GET', path, { parameters, ...options });
export const post = (path, body = {}, options) => call('POST', path, { body, ...options });
export const put = (path, body, options) => call('PUT', path, { body, ...options });
export const patch = (path, body, options) => call('PATCH', path, { body, ...options });
export const remove = (path, options) => call('DELETE', path, options);

/** Encodes a segment of a path. */
export const pathSegment = encodeURIComponent;
