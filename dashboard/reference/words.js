// Words with names between backticks, as comments of the code have them.

import { html } from '../lib/html.js';

export const Words = ({ text }) => text.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : part));
