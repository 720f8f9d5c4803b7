// Webhook deliveries: each call with its result.

import { html } from '../../lib/html.js';
import { get, pathSegment } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { messagePage } from '../../lib/links.js';
import { attempts } from '../../lib/message.js';
import { Ago, duration } from '../../lib/time.js';
import { Dialog, Empty, Loaded, StateBadge, Table } from '../../lib/ui.js';
import { settings } from '../../texts.js';

const text = settings.webhooks;
const columns = [
  { id: 'at', label: text.deliveryColumns.at, class: 'nowrap', cell: (one) => html`<${Ago} at=${one.started_at} />` },
  { id: 'ending', label: text.deliveryColumns.ending, cell: (one) => html`<${StateBadge} word=${one.ending} />` },
  { id: 'took', label: text.deliveryColumns.took, class: 'right num', cell: (one) => duration(one.took_ms) },
  { id: 'attempt', label: text.deliveryColumns.attempt, class: 'right num', cell: (one) => attempts(one) },
  {
    id: 'note',
    label: text.deliveryColumns.note,
    cell: (one) => html`<span class="clip" title=${one.note}>${one.note ?? '–'}</span>`,
  },
];

export function Deliveries({ hook, onClose }) {
  const loaded = useLoad(
    (signal) => get(`/webhooks/${pathSegment(hook.id)}/deliveries`, { limit: 50 }, { signal }),
    hook.id,
    {
      every: 3_000,
      poll: true,
    },
  );
  return html`<${Dialog} wide title=${text.deliveries} onClose=${onClose}>
    <p class="mono soft">${hook.url}</p>
    <${Loaded} of=${loaded}>
      ${({ items }) =>
        html`<${Table}
          label=${text.deliveries}
          columns=${columns}
          rows=${items}
          id=${(one) => one.id}
          href=${(one) => messagePage(one.message)}
          empty=${html`<${Empty} title=${text.noDeliveries} />`}
        />`}
    <//>
  <//>`;
}
