// Popover button: opens a small panel below it, such as a list with buttons. Escape and a click outside close it.

import { html, useEffect, useRef, useState } from './html.js';

/** `children` receives a function that closes the panel. */
export function Panel({ label, children, title }) {
  const [open, setOpen] = useState(false);
  const element = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    const pressed = (event) => {
      if (event.key === 'Escape') setOpen(false);
    };
    const clicked = (event) => {
      if (!element.current?.contains(event.target) && !event.target.closest?.('dialog')) setOpen(false);
    };
    addEventListener('keydown', pressed);
    addEventListener('pointerdown', clicked);
    return () => {
      removeEventListener('keydown', pressed);
      removeEventListener('pointerdown', clicked);
    };
  }, [open]);
  return html`<div class="menu-place" ref=${element}>
    <button type="button" aria-expanded=${open} title=${title} onClick=${() => setOpen(!open)}>
      ${label}
      <span aria-hidden="true">▾</span>
    </button>
    ${open ? html`<div class="menu-panel">${children(() => setOpen(false))}</div>` : null}
  </div>`;
}
