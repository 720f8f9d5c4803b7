// A button with further actions below it. Escape, a choice and a click elsewhere close it.

import { html, useEffect, useRef } from './html.js';

export function Menu({ label, children }) {
  const place = useRef(null);
  const close = () => { if (place.current) place.current.open = false; };
  useEffect(() => {
    const elsewhere = (event) => { if (!place.current?.contains(event.target)) close(); };
    const pressed = (event) => { if (event.key === 'Escape' && place.current?.open) { close(); place.current.querySelector('summary').focus(); } };
    addEventListener('pointerdown', elsewhere);
    addEventListener('keydown', pressed);
    return () => { removeEventListener('pointerdown', elsewhere); removeEventListener('keydown', pressed); };
  }, []);
  return html`<details class="menu-of" ref=${place}><summary class="button">${label}</summary><div class="sheet" onClickCapture=${close}>${children}</div></details>`;
}
