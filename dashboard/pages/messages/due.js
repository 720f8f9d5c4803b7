// Due time fields: a delay, or a date and time.

import { html } from '../../lib/html.js';
import { instantOf } from '../../lib/form.js';
import { parseDuration } from '../../lib/filter.js';
import { Field } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.due;

/** Returns the body of the API request; null while it is incomplete. */
export function dueOf({ mode, delay, at }) {
  if (mode === 'in') return parseDuration(delay.trim()) === null ? null : { delay: delay.trim() };
  const instant = instantOf(at);
  return instant ? { due_at: instant } : null;
}

/** Returns the options of the CLI command. */
export const cliOptions = (due) => {
  const found = dueOf(due);
  return { delay: found?.delay, at: found?.due_at };
};

export function DueFields({ value, onChange, wrong = {} }) {
  const set = (changes) => onChange({ ...value, ...changes });
  const modeButton = (id, label) =>
    html`<button type="button" aria-pressed=${value.mode === id} onClick=${() => set({ mode: id })}>${label}</button>`;
  return html`
    <div class="field">
      <span>${text.label}</span>
      <span class="choice">${modeButton('in', text.in)}${modeButton('at', text.at)}</span>
    </div>
    ${value.mode === 'in'
      ? html`<${Field} label=${text.duration} hint=${text.durationHint} error=${wrong.delay}>
          <input value=${value.delay} onInput=${(event) => set({ delay: event.target.value })} />
        <//>`
      : html`<${Field} label=${text.at} error=${wrong.due_at}>
          <input type="datetime-local" value=${value.at} onInput=${(event) => set({ at: event.target.value })} />
        <//>`}
  `;
}
