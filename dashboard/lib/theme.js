// Light and dark, by the system or by choice. The choice is kept in the browser.

import { useEffect, useState } from './html.js';

const KEY = 'punctual.theme';
const ORDER = ['system', 'light', 'dark'];
const dark = matchMedia('(prefers-color-scheme: dark)');

function chosen() {
  try { const kept = localStorage.getItem(KEY); return ORDER.includes(kept) ? kept : 'system'; } catch { return 'system'; }
}

/** Puts the theme on the page. */
export function applyTheme() {
  const theme = chosen();
  document.documentElement.dataset.theme = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme;
  dispatchEvent(new Event('punctual:theme'));
}

/** The next of the three. */
export function nextTheme() {
  try { localStorage.setItem(KEY, ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length]); } catch { /* private window: stays as it is */ }
  applyTheme();
}

dark.addEventListener('change', applyTheme);

/** Which of the three is chosen. */
export function useTheme() {
  const [theme, setTheme] = useState(chosen);
  useEffect(() => {
    const changed = () => setTheme(chosen());
    addEventListener('punctual:theme', changed);
    return () => removeEventListener('punctual:theme', changed);
  }, []);
  return theme;
}
