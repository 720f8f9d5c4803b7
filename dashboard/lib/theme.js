// Theme: light or dark, by the system or by choice. The choice is stored in the browser.

import { useEffect, useState } from './html.js';

const KEY = 'punctual.theme';
const ORDER = ['system', 'light', 'dark'];
const dark = matchMedia('(prefers-color-scheme: dark)');

function chosen() {
  try {
    const kept = localStorage.getItem(KEY);
    return ORDER.includes(kept) ? kept : 'system';
  } catch {
    return 'system';
  }
}

/** Applies the theme to the page. */
export function applyTheme() {
  const theme = chosen();
  document.documentElement.dataset.theme = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme;
  dispatchEvent(new Event('punctual:theme'));
}

/** Selects the next theme. */
export function nextTheme() {
  try {
    localStorage.setItem(KEY, ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length]);
  } catch {
    /* no storage in a private window */
  }
  applyTheme();
}

dark.addEventListener('change', applyTheme);

/** Returns the selected theme. */
export function useTheme() {
  const [theme, setTheme] = useState(chosen);
  useEffect(() => {
    const changed = () => setTheme(chosen());
    addEventListener('punctual:theme', changed);
    return () => removeEventListener('punctual:theme', changed);
  }, []);
  return theme;
}
