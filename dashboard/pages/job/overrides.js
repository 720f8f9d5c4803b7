// Overrides tab: the layer each value of a job comes from, and buttons that reset it.

import { html } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { ActionButton, Badge, Card, Empty, Loaded, Table, useToast } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.layers;
const Value = ({ value, wins }) =>
  value === null || value === undefined
    ? html`<span class="faint">–</span>`
    : html`<code class=${wins ? '' : 'faint struck'}>
        ${typeof value === 'string' ? value : JSON.stringify(value)}
      </code>`;

const columns = (job, reset) => [
  {
    id: 'field',
    label: text.columns.field,
    cell: (layer) => html`<strong>${layer.field.replaceAll('_', ' ')}</strong>`,
  },
  {
    id: 'declared',
    label: text.columns.declared,
    cell: (layer) => html`<${Value} value=${layer.declared} wins=${!layer.configured && !layer.overridden} />`,
  },
  {
    id: 'configured',
    label: text.columns.configured,
    cell: (layer) => html`<${Value} value=${layer.configured} wins=${!layer.overridden} />`,
  },
  {
    id: 'overridden',
    label: text.columns.overridden,
    cell: (layer) => html`<${Value} value=${layer.overridden} wins />`,
  },
  {
    id: 'effective',
    label: text.columns.effective,
    cell: (layer) =>
      html`<span title=${layer.why}>
        <${Badge} tone=${layer.overridden ? 'idle' : 'mute'}><code>${layer.effective}</code><//>
      </span>`,
  },
  {
    id: 'reset',
    label: text.columns.reset,
    class: 'right',
    cell: (layer) =>
      layer.overridden
        ? html`<${ActionButton}
            kind="small"
            cli=${cli.reset(job.name, layer.field)}
            onClick=${() => reset(layer.field)}
          >
            ${text.reset}
          <//>`
        : null,
  },
];

export function Layers({ job, reload }) {
  const toast = useToast();
  const loaded = useLoad(
    (signal) => get(`/jobs/${pathSegment(job.name)}/layers`, {}, { signal }),
    `${job.name} ${job.overridden} ${job.schedule} ${job.updated_at}`,
  );
  const reset = async (field) => {
    await jobActions.reset(job.name, field);
    toast({ text: field ? text.done(field) : text.allDone });
    reload();
    loaded.reload();
  };
  const actions = job.overridden.length
    ? html`<${ActionButton} kind="small" cli=${cli.reset(job.name)} onClick=${() => reset(null)}>${text.resetAll}<//>`
    : null;
  const rows = (data) => (Array.isArray(data) ? data : data.items);
  return html`<${Card} title=${text.title} actions=${actions} flush>
    <${Loaded} of=${loaded}>
      ${(data) =>
        html`<${Table}
          columns=${columns(job, reset)}
          rows=${rows(data)}
          id=${(layer) => layer.field}
          empty=${html`<${Empty} title=${text.none} />`}
        />`}
    <//>
  <//>`;
}
