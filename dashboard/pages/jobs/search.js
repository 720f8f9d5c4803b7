// The field of the page of jobs that searches.

import { html, useEffect, useRef } from '../../lib/html.js';
import { refine } from '../../lib/route.js';

/** Typing changes the address only when it rests. */
const REST = 250;

export function Search({ value, label }) {
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const search = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => refine({ search, after: null }), REST);
  };
  return html`<input type="search" placeholder=${label} aria-label=${label} value=${value ?? ''} onInput=${typed} />`;
}
