// Segmented control: a row of buttons of which one is selected.

import { html } from './html.js';

/** `choices`: [{id, label, title?}]. */
export function Choice({ label, choices, current, onChoose }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${choices.map(
      (choice) => html`<button
        type="button"
        class="small"
        key=${choice.id}
        aria-pressed=${choice.id === current}
        title=${choice.title}
        onClick=${() => onChoose(choice.id)}
      >
        ${choice.label}
      </button>`,
    )}
  </div>`;
}
