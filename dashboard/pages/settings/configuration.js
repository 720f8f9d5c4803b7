// Configuration tabs: rules of redaction and retention, and the effective configuration.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { Json } from '../../lib/json.js';
import { system } from '../../lib/cli_commands.js';
import { useLoad } from '../../lib/live.js';
import { Badge, Card, CliCommand, Facts, Loaded } from '../../lib/ui.js';
import { ForAdmins } from './admin.js';
import { settings } from '../../texts.js';

const useSettings = () => useLoad((signal) => get('/settings', {}, { signal }), 'settings');
/** Redaction rules: paths of values, and topics whose payload is hidden. */
export const rulesOf = ({ redact }) => ({ names: redact?.names ?? [], topics: redact?.topics ?? [] });
/** Retention by kind; empty for an embedded application, whose code sets it. */
export const retentionOf = ({ retention }) =>
  retention
    ? Object.entries(settings.rules.durations).map(([kind, label]) => [
        label,
        retention[kind] ?? settings.rules.defaults[kind],
      ])
    : [];

const Flags = ({ of }) =>
  html`<p class="flags">${of.map((rule) => html`<${Badge} key=${rule} tone="warn">${rule}<//>`)}</p>`;

function RuleCards({ found }) {
  const text = settings.rules;
  const { names, topics } = rulesOf(found);
  const kept = retentionOf(found);
  return html`
    <div class="grid begin">
      <${Card} title=${text.redaction}>
        <p class="soft">${text.redactionText}</p>
        ${names.length === 0 ? html`<p class="faint">${text.noRules}</p>` : html`<${Flags} of=${names} />`}
        ${topics.length > 0 ? html`<p class="soft">${text.topics}</p><${Flags} of=${topics} />` : null}
      <//>
      <${Card} title=${text.retention}>
        <p class="soft">${text.retentionText}</p>
        ${kept.length === 0 ? html`<p class="faint">${text.noRetention}</p>` : html`<${Facts} rows=${kept} />`}
      <//>
    </div>
    <p class="faint">${text.how}</p>
  `;
}

function RuleList() {
  const loaded = useSettings();
  return loaded.data === null
    ? html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`
    : html`<${RuleCards} found=${loaded.data} />`;
}

function Everything() {
  const loaded = useSettings();
  const text = settings.configuration;
  return html`<${Card} title=${text.title}>
    <p class="soft">${text.text}</p>
    <${Loaded} of=${loaded}>${(found) => html`<${Json} value=${found} />`}<//>
    <${CliCommand} command=${system.configuration()} />
  <//>`;
}

export const Rules = () => html`<${ForAdmins}><${RuleList} /><//>`;
export const Configuration = () => html`<${ForAdmins}><${Everything} /><//>`;
