// Menu button: opens further actions below it. Escape, a choice and a click outside close it.

import { html, useEffect, useRef } from './html.js';

export function Menu({ label, children }) {
  const element = useRef(null);
  const close = () => {
    if (element.current) element.current.open = false;
  };
  useEffect(() => {
    const clickedOutside = (event) => {
      if (!element.current?.contains(event.target)) close();
    };
    const pressed = (event) => {
      if (event.key === 'Escape' && element.current?.open) {
        close();
        element.current.querySelector('summary').focus();
      }
    };
    addEventListener('pointerdown', clickedOutside);
    addEventListener('keydown', pressed);
    return () => {
      removeEventListener('pointerdown', clickedOutside);
      removeEventListener('keydown', pressed);
    };
  }, []);
  return html`<details class="menu-of" ref=${element}>
    <summary class="button">${label}</summary>
    <div class="sheet" onClickCapture=${close}>${children}</div>
  </details>`;
}
