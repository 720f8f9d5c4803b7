// Transports tab: connection state, messages that wait for the relay, and a table of capabilities.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { messagesWith } from '../../lib/links.js';
import { bytes, count } from '../../lib/number.js';
import { duration } from '../../lib/time.js';
import { Badge, Card, Empty, Facts, Loaded } from '../../lib/ui.js';
import { Circuit } from './subscriptions.js';
import { topics } from '../../texts.js';

const text = topics.transports;
const TOPICS_MAX = 12;

const ConnectionState = ({ connected }) =>
  connected === null || connected === undefined
    ? html`<${Badge}>${text.unknown}<//>`
    : html`<${Badge} tone=${connected ? 'good' : 'bad'}>${connected ? text.connected : text.disconnected}<//>`;

/** Duration in milliseconds, from a serde duration or a number. */
const milliseconds = (value) =>
  typeof value === 'object' ? (value.secs ?? 0) * 1_000 + (value.nanos ?? 0) / 1e6 : value;

function shown(name, value) {
  if (name === 'payload_max') return value === null ? text.noLimit : bytes(value);
  if (typeof value === 'boolean')
    return value ? html`<span class="tone-good">${text.yes}</span>` : html`<span class="faint">${text.no}</span>`;
  if (value && typeof value === 'object') return text.upTo(duration(milliseconds(value.up_to)));
  return value === null || value === undefined ? '–' : (text.words[value] ?? String(value));
}

function Transport({ of }) {
  const rest = of.topics.length - TOPICS_MAX;
  const rows = [
    [text.kind, of.kind],
    [text.circuit, html`<${Circuit} word=${of.circuit} />`],
    [text.relay, html`<b class=${of.relay.oldest_age_ms > 60_000 ? 'tone-bad' : ''}>${count(of.relay.depth)}</b>`],
    [text.oldest, duration(of.relay.oldest_age_ms)],
    [
      text.topics,
      of.topics.length === 0
        ? null
        : html`<span class="flags">
            ${of.topics
              .slice(0, TOPICS_MAX)
              .map((topic) => html`<a key=${topic} class="badge mute" href=${messagesWith({ topic })}>${topic}</a>`)}
            ${rest > 0 ? html`<span class="faint">${text.more(count(rest))}</span>` : null}
          </span>`,
    ],
  ];
  return html`<${Card} title=${of.name} actions=${html`<${ConnectionState} connected=${of.connected} />`}>
    <${Facts} rows=${rows} />
  <//>`;
}

/** Capabilities, one column per transport. */
const Capabilities = ({ transports }) => html`<${Card} title=${text.capabilities} flush>
  <div class="table">
    <table aria-label=${text.capabilities}>
      <thead>
        <tr><th>${text.capability}</th>${transports.map((one) => html`<th key=${one.name}>${one.name}</th>`)}</tr>
      </thead>
      <tbody>
        ${Object.entries(text.names).map(
          ([name, label]) =>
            html`<tr key=${name}>
              <th scope="row">${label}</th>
              ${transports.map(
                (one) => html`<td key=${one.name} data-label=${one.name}>${shown(name, one.capabilities?.[name])}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>
<//>`;

export function Transports() {
  const loaded = useLoad((signal) => get('/transports', {}, { signal }), 'transports', {
    on: ['circuit.opened', 'circuit.closed', 'circuit.half_opened', 'message.relayed'],
    every: 3_000,
    poll: true,
  });
  if (loaded.data === null) return html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`;
  const { items } = loaded.data;
  if (items.length === 0) return html`<${Card}><${Empty} title=${text.none}><p>${text.noneText}</p><//><//>`;
  return html`
    <div class="grid">${items.map((one) => html`<${Transport} key=${one.name} of=${one} />`)}</div>
    <${Capabilities} transports=${items} />
  `;
}
