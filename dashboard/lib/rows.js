// The rows of a list that lives. What is shown keeps its order; its cells are renewed in place, and new rows are
// counted until somebody asks for them. A page holds some hundreds of rows; then one goes on from the last.

import { html, useEffect, useRef, useState } from './html.js';
import { get } from './api.js';
import { useLoad } from './live.js';
import { refine } from './route.js';
import { shell } from '../texts.js';

const PAGE = 100;
const MOST = 400;

/** Puts renewed rows where their old ones are; says how many are new, and how many are gone where all are known. */
export function renew(shown, fresh, id, isAll = false) {
  const byId = new Map(fresh.map((row) => [id(row), row]));
  const known = new Set(shown.map(id));
  return {
    rows: shown.map((row) => byId.get(id(row)) ?? row),
    added: fresh.filter((row) => !known.has(id(row))).length,
    gone: isAll ? shown.filter((row) => !byId.has(id(row))).length : 0,
  };
}

/** Which rows no longer belong here: they stand among fresh ones and are not among them. */
export function leftOf(shown, fresh, id, isAll = false) {
  const known = new Set(fresh.map(id));
  const end = isAll ? shown.length : shown.findLastIndex((row) => known.has(id(row))) + 1;
  return new Set(shown.slice(0, end).map(id).filter((one) => !known.has(one)));
}

/** Puts a further page behind; a row that moved meanwhile is not shown twice. */
export function behind(shown, page, id) {
  const known = new Set(shown.map(id));
  return [...shown, ...page.filter((row) => !known.has(id(row)))];
}

/** What a list without rows means. The server looks at a bounded number of rows at once; `next` says that there are more. */
export const emptiness = (next, isFiltered) => (next ? 'soFar' : isFiltered ? 'noMatch' : 'none');

const NOBODY = new Set();

/**
 * Loads a list and keeps it fresh. `parameters` are those of the API; `after` goes on from a row. They may be a
 * function where they move with the time; `name` says then when it is another list. `again` loads anew after an
 * action of one's own; what others do is only announced.
 */
export function useRows(path, parameters, { id, on = [], every = 2_000, limit = PAGE, name }) {
  const given = typeof parameters === 'function' ? parameters : () => parameters;
  const key = JSON.stringify([path, name ?? given()]);
  const [list, setList] = useState({ key: null, rows: [], next: null, added: 0, gone: 0, left: NOBODY });
  const [waiting, setWaiting] = useState(false);
  const [problem, setProblem] = useState(null);
  const loaded = useLoad((signal) => get(path, { ...given(), limit }, { signal }), key, { on, every });
  const newest = useRef(null);
  const anew = useRef(false);
  useEffect(() => {
    if (!loaded.data || loaded.key !== key || newest.current === loaded.data) return;
    newest.current = loaded.data;
    const { items, next } = loaded.data;
    const isAnew = anew.current;
    setList((before) => {
      if (before.key !== key || before.rows.length === 0 || isAnew) return { key, rows: items, next, added: 0, gone: 0, left: NOBODY };
      const isAll = next === null && !given().after;
      return { ...before, ...renew(before.rows, items, id, isAll), left: leftOf(before.rows, items, id, isAll) };
    });
    anew.current = false;
  }, [loaded.data, loaded.key, key]);
  const show = () => { const { items, next } = newest.current; setList({ key, rows: items, next, added: 0, gone: 0, left: NOBODY }); };
  const again = () => { anew.current = true; loaded.reload(); };
  const more = async () => {
    setWaiting(true);
    setProblem(null);
    try {
      const page = await get(path, { ...given(), limit, after: list.next });
      setList((before) => (before.key === key ? { ...before, rows: behind(before.rows, page.items, id), next: page.next } : before));
    } catch (error) { setProblem(error.message); }
    setWaiting(false);
  };
  const isHere = list.key === key;
  return { ...loaded, data: isHere ? list.rows : null, rows: isHere ? list.rows : [], next: list.next, added: list.added, gone: list.gone, left: isHere ? list.left : NOBODY, show, again, more, waiting, problem };
}

/** The bar that announces rows that came or went. */
export const NewRows = ({ of }) => (of.added > 0 || of.gone > 0 ? html`<button class="quiet fresh" onClick=${of.show}>${of.added > 0 ? shell.newRows(of.added) : shell.goneRows(of.gone)}</button>` : null);

/** The way to further rows, and back to the first. */
export function MoreRows({ of, after }) {
  const full = of.rows.length >= MOST;
  if (!of.next && !after) return null;
  return html`<div class="more">
    ${of.problem ? html`<span class="bad-text" role="alert">${of.problem}</span>` : null}
    ${after ? html`<button class="small" onClick=${() => refine({ after: null })}>${shell.first}</button>` : null}
    ${of.next && !full ? html`<button class="small" onClick=${of.more} disabled=${of.waiting} aria-busy=${of.waiting}>${shell.more}</button>` : null}
    ${of.next && full ? html`<button class="small" onClick=${() => { refine({ after: of.next }, {}); scrollTo(0, 0); }}>${shell.goOn}</button>` : null}
  </div>`;
}

/** Keeps the order rows were first seen in; new ones come last, so that nothing moves under the pointer. */
export function useOrder(rows, id) {
  const seen = useRef(new Map());
  for (const row of rows) if (!seen.current.has(id(row))) seen.current.set(id(row), seen.current.size);
  return [...rows].sort((one, other) => seen.current.get(id(one)) - seen.current.get(id(other)));
}
