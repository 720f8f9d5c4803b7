// Live data: one event stream for the whole page, which reconnects by itself, detects silence, and can be paused.
// Views load data with `useLoad`, which reloads on the events they name and on a tick.

import { useEffect, useRef, useState } from './html.js';

/** Silence in milliseconds after which the data may be out of date. */
const STALE_AFTER = 5_000;
const RECONNECT_MAX = 15_000;

const listeners = new Set();
const state = { connected: false, paused: false, hidden: false, lastEventAt: 0, tick: null };
let source = null;
let reconnectDelay = 500;
let timer = null;

function dispatch(name, data) {
  for (const listener of [...listeners]) listener(name, data);
}

function open() {
  source?.close();
  source = new EventSource('./api/v1/events');
  source.onopen = () => {
    state.connected = true;
    state.lastEventAt = Date.now();
    reconnectDelay = 500;
    dispatch('state');
  };
  source.onerror = () => {
    source.close();
    if (state.connected) {
      state.connected = false;
      dispatch('state');
    }
    clearTimeout(timer);
    timer = setTimeout(open, reconnectDelay);
    reconnectDelay = Math.min(reconnectDelay * 2, RECONNECT_MAX);
  };
  const receive = (event) => {
    state.lastEventAt = Date.now();
    let data = null;
    try {
      data = JSON.parse(event.data);
    } catch {
      /* an event of another version */
    }
    if (event.type === 'tick') state.tick = data;
    if (!state.paused) dispatch(event.type, data);
  };
  for (const name of NAMES) source.addEventListener(name, receive);
}

/** Event types; an EventSource needs a listener for each of them. */
const NAMES = [
  'tick',
  'missed',
  'message.enqueued',
  'message.dead',
  'message.changed',
  'message.relayed',
  'attempt.started',
  'attempt.succeeded',
  'attempt.failed',
  'attempt.timed_out',
  'attempt.lost',
  'attempt.ended_early',
  'attempt.progressed',
  'lease.lost',
  'leases.rescued',
  'job.declared',
  'job.fired',
  'job.misfired',
  'misfires.found',
  'job.skipped',
  'job.changed',
  'job.retired',
  'alert.raised',
  'alert.cleared',
  'configuration.refused',
  'subscription.changed',
  'circuit.opened',
  'circuit.half_opened',
  'circuit.closed',
  'queue.changed',
  'service.failed',
  'process.started',
  'process.stopping',
  'process.stopped',
];

/** Opens the stream. */
export function start() {
  open();
  document.addEventListener('visibilitychange', () => {
    state.hidden = document.hidden;
    if (!document.hidden) dispatch('resume');
  });
  setInterval(() => dispatch('state'), 1_000);
}

/** Closes the stream on sign-out. */
export function stop() {
  clearTimeout(timer);
  source?.close();
  source = null;
  state.connected = false;
}

/** Pauses or resumes updates. Nothing is lost: views reload on resume. */
export function pause(paused) {
  state.paused = paused;
  dispatch('state');
  if (!paused) dispatch('resume');
}

/** Calls `onEvent` for every event while the component is mounted. */
export function useEvents(onEvent) {
  const latest = useRef(onEvent);
  latest.current = onEvent;
  useEffect(() => {
    const listener = (name, data) => latest.current(name, data);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
}

/** State of the stream: live, paused, stale or disconnected. */
export function useStream() {
  const [, rerender] = useState(0);
  useEvents((name) => {
    if (name === 'state') rerender((count) => count + 1);
  });
  const silence = Date.now() - state.lastEventAt;
  const word = state.paused ? 'paused' : !state.connected ? 'disconnected' : silence > STALE_AFTER ? 'stale' : 'live';
  return { word, lastEventAt: state.lastEventAt, tick: state.tick };
}

/**
 * Loads data and keeps it fresh: immediately, when `key` changes, on the events in `on` (at most once per `every`
 * milliseconds), and every `every` milliseconds when `poll` is set. Old data stays until new data arrives;
 * `loadedAt` is the time of the latest response, in milliseconds since the epoch.
 */
export function useLoad(load, key, { on = [], every = 1_000, poll = false } = {}) {
  const [loaded, setLoaded] = useState({ data: null, error: null, loading: true, key: null, loadedAt: null });
  const run = useRef(() => {});
  useEffect(() => {
    let disposed = false,
      busy = false,
      again = false,
      last = 0,
      later = null;
    const controller = new AbortController();
    const now = async () => {
      if (disposed) return;
      if (busy) {
        again = true;
        return;
      }
      busy = true;
      last = Date.now();
      try {
        const data = await load(controller.signal);
        if (!disposed) setLoaded({ data, error: null, loading: false, key, loadedAt: Date.now() });
      } catch (error) {
        if (!disposed && error.name !== 'AbortError') {
          setLoaded((before) => ({
            data: before.key === key ? before.data : null,
            error,
            loading: false,
            key,
            loadedAt: before.key === key ? before.loadedAt : null,
          }));
        }
      }
      busy = false;
      if (again) {
        again = false;
        soon();
      }
    };
    const soon = () => {
      if (later || disposed) return;
      later = setTimeout(
        () => {
          later = null;
          now();
        },
        Math.max(0, last + every - Date.now()),
      );
    };
    run.current = now;
    setLoaded((before) => ({ ...before, loading: true }));
    now();
    const listener = (name) => {
      if (state.paused || state.hidden) return;
      if (name === 'resume' || on.includes(name) || (poll && name === 'state')) soon();
    };
    listeners.add(listener);
    return () => {
      disposed = true;
      clearTimeout(later);
      controller.abort();
      listeners.delete(listener);
    };
  }, [key]);
  return { ...loaded, reload: () => run.current() };
}
