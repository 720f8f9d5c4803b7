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
/** What is hidden: values by their paths, and whole contents by their topics. */
export const rulesOf = ({ redact }) => ({ names: redact?.names ?? [], topics: redact?.topics ?? [] });
/** How long each kind is kept; nothing of an application, whose code decides. */
export const keptOf = ({ retention }) => (retention ? Object.entries(settings.rules.lengths).map(([kind, label]) => [label, retention[kind] ?? settings.rules.usual[kind]]) : []);

const Flags = ({ of }) => html`<p class="flags">${of.map((rule) => html`<${Badge} key=${rule} tone="warn">${rule}<//>`)}</p>`;

function RuleCards({ found }) {
  const text = settings.rules;
  const { names, topics } = rulesOf(found);
  const kept = keptOf(found);
  return html`<div class="grid begin"><${Card} title=${text.redaction}><p class="soft">${text.redactionText}</p>
      ${names.length === 0 ? html`<p class="faint">${text.noRules}</p>` : html`<${Flags} of=${names} />`}
      ${topics.length > 0 ? html`<p class="soft">${text.topics}</p><${Flags} of=${topics} />` : null}<//>
    <${Card} title=${text.retention}><p class="soft">${text.retentionText}</p>
      ${kept.length === 0 ? html`<p class="faint">${text.noRetention}</p>` : html`<${Facts} rows=${kept} />`}<//></div>
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
