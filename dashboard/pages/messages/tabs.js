// Tabs of the messages page: one per state with its count, and the executions.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { isCheapToCount, parameters, valueOf, withTerm } from '../../lib/filter.js';
import { approximate, short } from '../../lib/number.js';
import { to } from '../../lib/route.js';
import { Tabs } from '../../lib/ui.js';
import { messages as text } from '../../texts.js';

const STATES = ['pending', 'running', 'dead', 'done', 'cancelled'];

/** Loads the count of each state; repeatedly only when counting is cheap. */
export function useCounts(q) {
  const rest = withTerm(q, 'state', null);
  const plain = isCheapToCount(parameters(rest));
  const load = (signal) =>
    Promise.all(STATES.map((state) => get('/messages/count', { ...parameters(rest), state }, { signal })));
  const loaded = useLoad(load, rest, { every: 5_000, poll: plain });
  const found = loaded.key === rest ? loaded.data : null;
  return {
    counts: found ? Object.fromEntries(STATES.map((state, at) => [state, found[at]])) : {},
    reload: loaded.reload,
  };
}

const shown = (counted) => (counted ? approximate(short(counted.count), counted) + (counted.more ? '+' : '') : null);

/** Sum of the counts of the states that the filter names. */
export function totalOf(q, counts) {
  const wanted = valueOf(q, 'state')?.split(',') ?? STATES;
  const parts = wanted.map((state) => counts[state]);
  if (parts.some((one) => !one)) return null;
  return {
    count: parts.reduce((sum, one) => sum + one.count, 0),
    more: parts.some((one) => one.more),
    estimate: parts.some((one) => one.estimate),
  };
}

export function StateTabs({ q, counts, current }) {
  const state = current ?? valueOf(q, 'state') ?? 'all';
  const rest = withTerm(q, 'state', null);
  const tab = (id) => ({
    id,
    label: text.tabs[id],
    href: to(['messages'], { q: withTerm(rest, 'state', id === 'all' ? null : id) }),
    count: shown(counts[id]),
  });
  return html`<${Tabs}
    current=${state}
    tabs=${[
      ...['all', ...STATES].map(tab),
      { id: 'executions', label: text.tabs.executions, href: to(['messages', 'executions']) },
    ]}
  />`;
}
