// Copy button: puts a text on the clipboard and confirms it.

import { html, useState } from './html.js';
import { shell } from '../texts.js';

export function Copy({ text, label = shell.copy, kind = 'quiet small' }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'function' ? text() : text);
      setCopied(true);
      setTimeout(() => setCopied(false), 1_500);
    } catch {
      /* not allowed here */
    }
  };
  return html`<button type="button" class=${kind} onClick=${copy}>${copied ? shell.copied : label}</button>`;
}

/** Shortens an id for a table; the whole id is in the tooltip. */
export const shortId = (id) => (id.length > 20 ? `${id.slice(0, 8)}…${id.slice(-6)}` : id);
export const Id = ({ id }) => html`<span class="mono faint nowrap" title=${id}>${shortId(id)}</span>`;
