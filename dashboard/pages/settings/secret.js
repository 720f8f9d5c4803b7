// Secret dialog: shows a secret once, to copy.

import { html } from '../../lib/html.js';
import { Copy } from '../../lib/copy.js';
import { Dialog } from '../../lib/ui.js';

export function Secret({ title, about, value, button, onClose }) {
  return html`<${Dialog}
    title=${title}
    onClose=${() => {}}
    footer=${html`<button type="button" class="primary" onClick=${onClose}>${button}</button>`}
  >
    <p class="notice warn">${about}</p>
    <div class="secret"><code tabindex="0">${value}</code><${Copy} text=${value} kind="small" /></div>
  <//>`;
}
