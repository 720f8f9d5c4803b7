// Inline code: text with names between backticks, as in doc comments.

import { html } from '../lib/html.js';

export const InlineCode = ({ text }) =>
  text.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part));
