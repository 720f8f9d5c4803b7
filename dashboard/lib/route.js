// Where we are: `#/jobs/nightly?tab=history`. The hash holds everything a link must reproduce, and so the
// dashboard works under any path.

import { useEffect, useState } from './html.js';

/** Reads the hash: the parts of the path, and the query as an object of texts. */
export function parse(hash = location.hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  return { parts, page: parts[0] ?? 'overview', query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The link to a place: `to(['jobs', name], { tab: 'history' })`. What is null or empty is left out. */
export function to(parts, query = {}) {
  const path = [].concat(parts).map(encodeURIComponent).join('/');
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(kept).toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

/** Goes there; `replace` leaves no step in the history. */
export function go(parts, query = {}, { replace = false } = {}) {
  const link = to(parts, query);
  if (link === location.hash) return;
  if (replace) {
    history.replaceState(null, '', link);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = link;
  }
}

/** Changes some of the query and stays on the page. */
export function refine(changes, options = { replace: true }) {
  const { parts, query } = parse();
  go(parts, { ...query, ...changes }, options);
}

/** The place, and again whenever it changes. */
export function useRoute() {
  const [route, setRoute] = useState(() => ({ hash: location.hash, ...parse() }));
  useEffect(() => {
    const changed = () => setRoute({ hash: location.hash, ...parse() });
    addEventListener('hashchange', changed);
    // It may have changed after the first rendering and before anybody listened.
    if (location.hash !== route.hash) changed();
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
