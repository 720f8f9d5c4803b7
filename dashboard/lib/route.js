// Router: `#/jobs/nightly?tab=history`. The hash holds everything that a link must reproduce, so that the
// dashboard works under any path.

import { useEffect, useState } from './html.js';

/** Parses the hash: the segments of the path, and the query as an object of strings. */
export function parse(hash = location.hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map(decodeURIComponent);
  return { parts, page: parts[0] ?? 'overview', query: Object.fromEntries(new URLSearchParams(query)) };
}

/** Builds a link: `to(['jobs', name], { tab: 'history' })`. Null and empty parameters are left out. */
export function to(parts, query = {}) {
  const path = [].concat(parts).map(encodeURIComponent).join('/');
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(kept).toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

/** Navigates; `replace` adds no step to the history. */
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

/** Changes some parameters and stays on the page. */
export function refine(changes, options = { replace: true }) {
  const { parts, query } = parse();
  go(parts, { ...query, ...changes }, options);
}

/** Returns the current route; renders again whenever it changes. */
export function useRoute() {
  const [route, setRoute] = useState(() => ({ hash: location.hash, ...parse() }));
  useEffect(() => {
    const changed = () => setRoute({ hash: location.hash, ...parse() });
    addEventListener('hashchange', changed);
    // The hash may have changed between the first rendering and this effect.
    if (location.hash !== route.hash) changed();
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
