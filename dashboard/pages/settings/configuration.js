// What the server was configured with: rules of redaction and retention, and everything that holds.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { Json } from '../../lib/json.js';
import { system } from '../../lib/lines.js';
import { useLoad } from '../../lib/live.js';
import { Badge, Card, Cli, Facts, Loaded } from '../../lib/ui.js';
import { ForAdmins } from './admin.js';
import { settings } from '../../texts.js';

const useSettings = () => useLoad((signal) => get('/settings', {}, { signal }), 'settings');
/** The rules, wherever the server says them. */
const rulesOf = (found) => found.redaction?.rules ?? found.redact ?? found.redaction ?? [];

function RuleCards({ found }) {
  const text = settings.rules;
  const rules = [].concat(rulesOf(found));
  const kept = Object.entries(found.retention ?? {});
  return html`<div class="grid begin"><${Card} title=${text.redaction}><p class="soft">${text.redactionText}</p>
      ${rules.length === 0 ? html`<p class="faint">${text.noRules}</p>` : html`<p class="flags">${rules.map((rule) => html`<${Badge} key=${rule} tone="warn">${String(rule)}<//>`)}</p>`}<//>
    <${Card} title=${text.retention}><p class="soft">${text.retentionText}</p>
      ${kept.length === 0 ? html`<p class="faint">${text.noRetention}</p>` : html`<${Facts} rows=${kept.map(([name, value]) => [name.replaceAll('_', ' '), String(value)])} />`}<//></div>
    <p class="faint">${text.how}</p>`;
}

function RuleList() {
  const loaded = useSettings();
  return loaded.data === null ? html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>` : html`<${RuleCards} found=${loaded.data} />`;
}

function Everything() {
  const loaded = useSettings();
  const text = settings.configuration;
  return html`<${Card} title=${text.title}><p class="soft">${text.text}</p><${Loaded} of=${loaded}>${(found) => html`<${Json} value=${found} />`}<//><${Cli} line=${system.configuration()} /><//>`;
}

export const Rules = () => html`<${ForAdmins}><${RuleList} /><//>`;
export const Configuration = () => html`<${ForAdmins}><${Everything} /><//>`;
