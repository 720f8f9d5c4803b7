// Subscriptions tab: what this process receives from transports, with pause, resume and circuit state.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, post } from '../../lib/api.js';
import { subscriptions as cli } from '../../lib/cli_commands.js';
import { useLoad } from '../../lib/live.js';
import { ActionButton, Badge, Card, Confirm, Empty, Loaded, Table, useToast } from '../../lib/ui.js';
import { topics } from '../../texts.js';

const text = topics.subscriptions;
const ON = ['subscription.changed', 'circuit.opened', 'circuit.half_opened', 'circuit.closed', 'missed'];
const CIRCUITS = { closed: 'good', open: 'bad', 'half open': 'warn' };
const isPaused = (one) => one.paused ?? one.state === 'paused';

export const Circuit = ({ word }) =>
  word
    ? html`<${Badge} tone=${CIRCUITS[word] ?? 'mute'} title=${text.circuits[word]}>${word}<//>`
    : html`<span class="faint">–</span>`;

function State({ of }) {
  if (isPaused(of)) return html`<${Badge} tone="warn">${text.paused}<//>`;
  return of.connected === false
    ? html`<${Badge} tone="bad">${text.disconnected}<//>`
    : html`<${Badge} tone="good">${text.receiving}<//>`;
}

function RowActions({ of, onDone }) {
  const [asking, setAsking] = useState(false);
  const toast = useToast();
  const call = async (verb, words) => {
    await post(`/subscriptions/${pathSegment(of.id)}/${verb}`);
    toast({ text: words });
    onDone();
  };
  if (isPaused(of))
    return html`<${ActionButton}
      kind="small"
      label=${`${text.resume}: ${of.topic} ${of.group}`}
      cli=${cli.resume(of.id)}
      onClick=${() => call('resume', text.didResume(of.topic))}
    >
      ${text.resume}
    <//>`;
  return html`
    <${ActionButton}
      kind="small"
      label=${`${text.pause}: ${of.topic} ${of.group}`}
      cli=${cli.pause(of.id)}
      onClick=${() => setAsking(true)}
    >
      ${text.pause}
    <//>
    ${asking
      ? html`<${Confirm}
          title=${text.ask}
          text=${text.askText(of.topic, of.group)}
          button=${text.pause}
          tone="primary"
          cli=${cli.pause(of.id)}
          onDo=${() => call('pause', text.didPause(of.topic))}
          onClose=${() => setAsking(false)}
        />`
      : null}
  `;
}

const columns = (onDone) => [
  { id: 'topic', label: text.columns.topic, cell: (one) => html`<b class="clip" title=${one.topic}>${one.topic}</b>` },
  { id: 'group', label: text.columns.group, cell: (one) => html`<span class="clip narrow">${one.group}</span>` },
  { id: 'transport', label: text.columns.transport, cell: (one) => one.transport },
  { id: 'state', label: text.columns.state, cell: (one) => html`<${State} of=${one} />` },
  { id: 'circuit', label: text.columns.circuit, cell: (one) => html`<${Circuit} word=${one.circuit} />` },
  { id: 'running', label: text.columns.running, class: 'right num', cell: (one) => one.running },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (one) => html`<${RowActions} of=${one} onDone=${onDone} />`,
  },
];

export function Subscriptions() {
  const loaded = useLoad((signal) => get('/subscriptions', {}, { signal }), 'subscriptions', {
    on: ON,
    every: 3_000,
    poll: true,
  });
  return html`<${Card} flush>
    <${Loaded} of=${loaded}>
      ${({ items }) => html`<${Table}
        label=${topics.tabs.subscriptions}
        columns=${columns(loaded.reload)}
        rows=${items}
        id=${(one) => one.id}
        empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
      />`}
    <//>
  <//>`;
}
