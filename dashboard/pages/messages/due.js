// When something becomes due: after a length, or at a time.

import { html } from '../../lib/html.js';
import { instantOf } from '../../lib/form.js';
import { lengthOf } from '../../lib/filter.js';
import { Field } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.due;

/** What the API is asked for; null when it is not filled in. */
export function dueOf({ way, length, at }) {
  if (way === 'in') return lengthOf(length.trim()) === null ? null : { delay: length.trim() };
  const instant = instantOf(at);
  return instant ? { due_at: instant } : null;
}

/** The same as options of a line for the shell. */
export const lineOf = (due) => { const found = dueOf(due); return { delay: found?.delay, at: found?.due_at }; };

export function DueFields({ value, onChange, wrong = {} }) {
  const set = (changes) => onChange({ ...value, ...changes });
  const way = (id, label) => html`<button type="button" aria-pressed=${value.way === id} onClick=${() => set({ way: id })}>${label}</button>`;
  return html`<div class="field"><span>${text.label}</span><span class="choice">${way('in', text.in)}${way('at', text.at)}</span></div>
    ${value.way === 'in'
      ? html`<${Field} label=${text.length} hint=${text.lengthHint} error=${wrong.delay}><input value=${value.length} onInput=${(event) => set({ length: event.target.value })} /><//>`
      : html`<${Field} label=${text.at} error=${wrong.due_at}><input type="datetime-local" value=${value.at} onInput=${(event) => set({ at: event.target.value })} /><//>`}`;
}
