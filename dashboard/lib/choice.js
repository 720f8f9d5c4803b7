// One of a few, side by side.

import { html } from './html.js';

/** `choices`: [{id, label, title?}]. */
export function Choice({ label, choices, current, onChoose }) {
  return html`<div class="choice" role="group" aria-label=${label}>${choices.map((choice) => html`<button type="button" class="small" key=${choice.id}
    aria-pressed=${choice.id === current} title=${choice.title} onClick=${() => onChoose(choice.id)}>${choice.label}</button>`)}</div>`;
}
