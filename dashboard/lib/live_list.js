// Live list: rows that are updated in place without changing their order; new rows are counted and shown on request.
// A page shows some hundreds of rows; then the list continues on the next page.

import { html, useEffect, useRef, useState } from './html.js';
import { get } from './api.js';
import { useLoad } from './live.js';
import { refine } from './route.js';
import { shell } from '../texts.js';

const PAGE_ROWS = 100;
const ROWS_MAX = 400;

/** Replaces the shown rows by their fresh versions; counts added rows, and removed ones when `fresh` is complete. */
export function mergeRows(shown, fresh, id, isAll = false) {
  const byId = new Map(fresh.map((row) => [id(row), row]));
  const known = new Set(shown.map(id));
  return {
    rows: shown.map((row) => byId.get(id(row)) ?? row),
    added: fresh.filter((row) => !known.has(id(row))).length,
    removed: isAll ? shown.filter((row) => !byId.has(id(row))).length : 0,
  };
}

/** Returns the ids of shown rows that no longer match: they lie within the range of `fresh` but are not in it. */
export function staleIds(shown, fresh, id, isAll = false) {
  const known = new Set(fresh.map(id));
  const end = isAll ? shown.length : shown.findLastIndex((row) => known.has(id(row))) + 1;
  return new Set(
    shown
      .slice(0, end)
      .map(id)
      .filter((one) => !known.has(one)),
  );
}

/** Appends a page without repeating rows that moved meanwhile. */
export function appendPage(shown, page, id) {
  const known = new Set(shown.map(id));
  return [...shown, ...page.filter((row) => !known.has(id(row)))];
}

/** Why a list is empty. The server searches a bounded number of rows per call; `next` means that there are more. */
export const emptyReason = (next, isFiltered) => (next ? 'soFar' : isFiltered ? 'noMatch' : 'none');

const NO_IDS = new Set();

/**
 * Loads a list and keeps it fresh. `parameters` are those of the API, or a function that returns them when they depend
 * on the time; `name` then identifies the list. `refresh` reloads after an action of the user; changes by others are
 * only announced.
 */
export function useLiveList(path, parameters, { id, on = [], every = 2_000, limit = PAGE_ROWS, name }) {
  const current = typeof parameters === 'function' ? parameters : () => parameters;
  const key = JSON.stringify([path, name ?? current()]);
  const [list, setList] = useState({ key: null, rows: [], next: null, added: 0, removed: 0, stale: NO_IDS });
  const [loadingMore, setLoadingMore] = useState(false);
  const [problem, setProblem] = useState(null);
  const loaded = useLoad((signal) => get(path, { ...current(), limit }, { signal }), key, { on, every });
  const newest = useRef(null);
  const refreshing = useRef(false);
  useEffect(() => {
    if (!loaded.data || loaded.key !== key || newest.current === loaded.data) return;
    newest.current = loaded.data;
    const { items, next } = loaded.data;
    const isRefresh = refreshing.current;
    setList((before) => {
      if (before.key !== key || before.rows.length === 0 || isRefresh)
        return { key, rows: items, next, added: 0, removed: 0, stale: NO_IDS };
      const isAll = next === null && !current().after;
      return { ...before, ...mergeRows(before.rows, items, id, isAll), stale: staleIds(before.rows, items, id, isAll) };
    });
    refreshing.current = false;
  }, [loaded.data, loaded.key, key]);
  const show = () => {
    const { items, next } = newest.current;
    setList({ key, rows: items, next, added: 0, removed: 0, stale: NO_IDS });
  };
  const refresh = () => {
    refreshing.current = true;
    loaded.reload();
  };
  const more = async () => {
    setLoadingMore(true);
    setProblem(null);
    try {
      const page = await get(path, { ...current(), limit, after: list.next });
      setList((before) =>
        before.key === key ? { ...before, rows: appendPage(before.rows, page.items, id), next: page.next } : before,
      );
    } catch (error) {
      setProblem(error.message);
    }
    setLoadingMore(false);
  };
  const isCurrent = list.key === key;
  return {
    ...loaded,
    data: isCurrent ? list.rows : null,
    rows: isCurrent ? list.rows : [],
    next: list.next,
    added: list.added,
    removed: list.removed,
    stale: isCurrent ? list.stale : NO_IDS,
    show,
    refresh,
    more,
    loadingMore,
    problem,
  };
}

/** Bar that announces added or removed rows. */
export const NewRows = ({ of }) =>
  of.added > 0 || of.removed > 0
    ? html`<button class="quiet fresh" onClick=${of.show}>
        ${of.added > 0 ? shell.newRows(of.added) : shell.removedRows(of.removed)}
      </button>`
    : null;

/** Buttons for further rows, and back to the first. */
export function MoreRows({ of, after }) {
  const full = of.rows.length >= ROWS_MAX;
  if (!of.next && !after) return null;
  return html`<div class="more">
    ${of.problem ? html`<span class="bad-text" role="alert">${of.problem}</span>` : null}
    ${after ? html`<button class="small" onClick=${() => refine({ after: null })}>${shell.first}</button>` : null}
    ${of.next && !full
      ? html`<button class="small" onClick=${of.more} disabled=${of.loadingMore} aria-busy=${of.loadingMore}>
          ${shell.more}
        </button>`
      : null}
    ${of.next && full
      ? html`<button
          class="small"
          onClick=${() => {
            refine({ after: of.next }, {});
            scrollTo(0, 0);
          }}
        >
          ${shell.nextPage}
        </button>`
      : null}
  </div>`;
}

/** Keeps rows in the order in which they first appeared, so that nothing moves under the pointer. */
export function useOrder(rows, id) {
  const seen = useRef(new Map());
  for (const row of rows) if (!seen.current.has(id(row))) seen.current.set(id(row), seen.current.size);
  return [...rows].sort((one, other) => seen.current.get(id(one)) - seen.current.get(id(other)));
}
