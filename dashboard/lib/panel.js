// A button with a small panel of its own below it, such as a list with buttons: Escape and a click elsewhere close it.

import { html, useEffect, useRef, useState } from './html.js';

/** `children` is given the way to close it. */
export function Panel({ label, children, title }) {
  const [open, setOpen] = useState(false);
  const place = useRef(null);
  useEffect(() => {
    if (!open) return undefined;
    const pressed = (event) => { if (event.key === 'Escape') setOpen(false); };
    const clicked = (event) => { if (!place.current?.contains(event.target) && !event.target.closest?.('dialog')) setOpen(false); };
    addEventListener('keydown', pressed);
    addEventListener('pointerdown', clicked);
    return () => { removeEventListener('keydown', pressed); removeEventListener('pointerdown', clicked); };
  }, [open]);
  return html`<div class="menu-place" ref=${place}>
    <button type="button" aria-expanded=${open} title=${title} onClick=${() => setOpen(!open)}>${label}<span aria-hidden="true">▾</span></button>
    ${open ? html`<div class="menu-panel">${children(() => setOpen(false))}</div>` : null}
  </div>`;
}
