// What happens, as it happens. One stream for the whole page: it reconnects by itself, says when it is stale,
// and can be paused. Views ask for data with `useLoad`, which loads again on events they name and on a tick.

import { useEffect, useRef, useState } from './html.js';

/** Without a word for this long, what is shown may be old. */
const STALE_AFTER = 5_000;
const RECONNECT_MAX = 15_000;

const listeners = new Set();
const state = { connected: false, paused: false, hidden: false, heardAt: 0, tick: null };
let source = null;
let wait = 500;
let timer = null;

function tell(name, data) {
  for (const listener of [...listeners]) listener(name, data);
}

function open() {
  source?.close();
  source = new EventSource('./api/v1/events');
  source.onopen = () => { state.connected = true; state.heardAt = Date.now(); wait = 500; tell('state'); };
  source.onerror = () => {
    source.close();
    if (state.connected) { state.connected = false; tell('state'); }
    clearTimeout(timer);
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, RECONNECT_MAX);
  };
  const hear = (event) => {
    state.heardAt = Date.now();
    let data = null;
    try { data = JSON.parse(event.data); } catch { /* a frame of another version */ }
    if (event.type === 'tick') state.tick = data;
    if (!state.paused) tell(event.type, data);
  };
  for (const name of NAMES) source.addEventListener(name, hear);
}

/** The kinds of events; the stream has no way to hear all of them at once. */
const NAMES = [
  'tick', 'missed', 'message.enqueued', 'message.dead', 'message.commanded', 'message.relayed', 'attempt.started',
  'attempt.succeeded', 'attempt.failed', 'attempt.timed_out', 'attempt.lost', 'attempt.yielded', 'attempt.progressed', 'lease.lost',
  'leases.rescued', 'job.declared', 'job.fired', 'job.misfired', 'misfires.found', 'job.skipped', 'job.steered', 'job.retired', 'alert.raised', 'alert.cleared', 'configuration.refused',
  'subscription.steered', 'circuit.opened', 'circuit.half_opened', 'circuit.closed', 'queue.steered', 'service.failed',
  'process.started', 'process.stopping', 'process.stopped',
];

/** Begins to listen. */
export function start() {
  open();
  document.addEventListener('visibilitychange', () => {
    state.hidden = document.hidden;
    if (!document.hidden) tell('resume');
  });
  setInterval(() => tell('state'), 1_000);
}

/** Ends listening, when somebody signs out. */
export function stop() {
  clearTimeout(timer);
  source?.close();
  source = null;
  state.connected = false;
}

/** Stops or lets go on what is shown; nothing is lost, it is loaded again. */
export function pause(paused) {
  state.paused = paused;
  tell('state');
  if (!paused) tell('resume');
}

/** Hears every event while a view is there. */
export function useEvents(hear) {
  const latest = useRef(hear);
  latest.current = hear;
  useEffect(() => {
    const listener = (name, data) => latest.current(name, data);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
}

/** How the stream is: live, paused, stale or away. */
export function useStream() {
  const [, again] = useState(0);
  useEvents((name) => { if (name === 'state') again((count) => count + 1); });
  const silent = Date.now() - state.heardAt;
  const word = state.paused ? 'paused' : !state.connected ? 'away' : silent > STALE_AFTER ? 'stale' : 'live';
  return { word, heardAt: state.heardAt, tick: state.tick };
}

/**
 * Loads data and keeps it fresh: at once, when `key` changes, on the events in `on` (at most once per `every`
 * milliseconds), and every `every` milliseconds when `poll` is set. Old data stays until the new is there;
 * `answeredAt` says when it came, in milliseconds since the epoch.
 */
export function useLoad(load, key, { on = [], every = 1_000, poll = false } = {}) {
  const [loaded, setLoaded] = useState({ data: null, error: null, loading: true, key: null, answeredAt: null });
  const run = useRef(() => {});
  useEffect(() => {
    let over = false, busy = false, again = false, last = 0, later = null;
    const controller = new AbortController();
    const now = async () => {
      if (over) return;
      if (busy) { again = true; return; }
      busy = true; last = Date.now();
      try {
        const data = await load(controller.signal);
        if (!over) setLoaded({ data, error: null, loading: false, key, answeredAt: Date.now() });
      } catch (error) {
        if (!over && error.name !== 'AbortError') {
          setLoaded((before) => ({ data: before.key === key ? before.data : null, error, loading: false, key, answeredAt: before.key === key ? before.answeredAt : null }));
        }
      }
      busy = false;
      if (again) { again = false; soon(); }
    };
    const soon = () => {
      if (later || over) return;
      later = setTimeout(() => { later = null; now(); }, Math.max(0, last + every - Date.now()));
    };
    run.current = now;
    setLoaded((before) => ({ ...before, loading: true }));
    now();
    const hear = (name) => {
      if (state.paused || state.hidden) return;
      if (name === 'resume' || on.includes(name) || (poll && name === 'state')) soon();
    };
    listeners.add(hear);
    return () => { over = true; clearTimeout(later); controller.abort(); listeners.delete(hear); };
  }, [key]);
  return { ...loaded, reload: () => run.current() };
}
