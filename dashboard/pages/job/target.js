// Target tab: what a job runs, its payload, and its whole API document.

import { html } from '../../lib/html.js';
import { Card, Facts } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.target;
const Value = ({ value }) =>
  value !== null && typeof value === 'object'
    ? html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`
    : html`<code>${String(value)}</code>`;

export function Target({ job }) {
  return html`
    <div class="grid half">
      <${Card} title=${text.title}>
        <${Facts}
          rows=${Object.entries(job.target).map(([name, value]) => [
            name.replaceAll('_', ' '),
            html`<${Value} value=${value} />`,
          ])}
        />
      <//>
      <${Card} title=${text.payload}>
        ${job.payload === null || job.payload === undefined
          ? html`<p class="faint">${text.noPayload}</p>`
          : html`<pre tabindex="0">${JSON.stringify(job.payload, null, 2)}</pre>`}
      <//>
    </div>
    <details class="card raw">
      <summary>${text.raw}</summary>
      <pre tabindex="0">${JSON.stringify(job, null, 2)}</pre>
    </details>
  `;
}
