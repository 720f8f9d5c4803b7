// Search field of the jobs page.

import { html, useEffect, useRef } from '../../lib/html.js';
import { refine } from '../../lib/route.js';

/** Pause in typing after which the address changes, in milliseconds. */
const TYPING_PAUSE = 250;

export function Search({ value, label }) {
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const search = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => refine({ search, after: null }), TYPING_PAUSE);
  };
  return html`<input type="search" placeholder=${label} aria-label=${label} value=${value ?? ''} onInput=${typed} />`;
}
