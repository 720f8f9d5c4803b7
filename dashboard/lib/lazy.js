// Lazy pages: modules that are loaded when they are first shown, so that the first page loads faster.

import { html, useEffect, useState } from './html.js';
import { Loaded } from './ui.js';

/** Wraps a page of a module: `lazy(() => import('./pages/audit.js'), 'Audit')`. */
export function lazy(load, name) {
  let Page = null;
  return function Lazy(props) {
    const [, again] = useState(0);
    const [error, setError] = useState(null);
    const fetchPage = () => {
      setError(null);
      load().then((module) => {
        Page = module[name];
        again((count) => count + 1);
      }, setError);
    };
    useEffect(() => {
      if (!Page) fetchPage();
    }, []);
    return Page
      ? html`<${Page} ...${props} />`
      : html`<${Loaded} of=${{ data: null, error, reload: fetchPage }}>${() => null}<//>`;
  };
}
