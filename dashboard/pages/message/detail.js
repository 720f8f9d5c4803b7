// Message page: why box, state diagram, attempts, content, related messages and actions.

import { html } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { Copy } from '../../lib/copy.js';
import { useLoad } from '../../lib/live.js';
import { ON } from '../../lib/message.js';
import { to } from '../../lib/route.js';
import { Card, Empty, Head, Loaded } from '../../lib/ui.js';
import { Actions } from './actions.js';
import { Attempts } from './attempts.js';
import { Content } from './content.js';
import { MessageProgress, Headers, MessageFacts, Related } from './facts.js';
import { StateDiagram } from './state_diagram.js';
import { Why } from './why.js';
import { message as text } from '../../texts.js';

const crumbs = html`<a href=${to(['messages'])}>${text.crumb}</a>`;

function Details({ of, onDone }) {
  return html`
    <${Head}
      title=${of.topic}
      crumbs=${crumbs}
      about=${html`<span class="mono">${of.id}</span> <${Copy} text=${of.id} />`}
    >
      <${Actions} of=${of} onDone=${onDone} />
    <//>
    <${Why} of=${of} />
    <div class="grid two">
      <div class="stack">
        <${Card}><${StateDiagram} of=${of} /><//>
        <${Attempts} of=${of} />
        <${Content} body=${of.body} size=${of.size} />
        ${of.checkpoint ? html`<${Content} body=${of.checkpoint} title=${text.body.checkpoint} />` : null}
      </div>
      <div class="stack">
        <${MessageProgress} of=${of} />
        <${MessageFacts} of=${of} />
        <${Related} of=${of} />
        <${Headers} headers=${of.headers} />
      </div>
    </div>
  `;
}

export function Message({ id }) {
  const loaded = useLoad((signal) => get(`/messages/${pathSegment(id)}`, {}, { signal, exact: true }), id, {
    on: [...ON, 'attempt.progressed', 'queue.changed', 'job.changed'],
    every: 1_000,
  });
  if (loaded.data === null && loaded.error?.status === 404) {
    return html`
      <${Head} title=${id} crumbs=${crumbs} />
      <${Card}><${Empty} title=${text.notFound}><p>${text.notFoundText}</p><//><//>
    `;
  }
  if (loaded.data === null)
    return html`<${Head} title=${id} crumbs=${crumbs} /><${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`;
  return html`<${Loaded} of=${loaded}>${(of) => html`<${Details} of=${of} onDone=${loaded.reload} />`}<//>`;
}
