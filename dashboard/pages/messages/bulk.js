// Bulk actions for the selected messages, or for all that match the filter.

import { html, useState } from '../../lib/html.js';
import { get, post } from '../../lib/api.js';
import { messages as cli } from '../../lib/cli_commands.js';
import { messageActions } from '../../lib/message.js';
import { count, approximate } from '../../lib/number.js';
import { BulkAction, untilDone, forEachId, byPages } from '../../lib/bulk_action.js';
import { ActionButton, Field } from '../../lib/ui.js';
import { CHANGES } from './bulk_fields.js';
import { messages } from '../../texts.js';

const text = messages.bulk;
const COUNT_LIMIT = 10_000;
const STEP = 500;
const ACTIONS = ['redrive', 'cancel', 'reschedule', 'reassign', 'discard'];
/** Returns how to count and apply an action: for selected ids, or for a filter. */
function plan(action, { ids, filter }, body) {
  if (ids)
    return {
      loadCount: async () => ({ count: ids.length, more: false }),
      steps: () => forEachId(ids, (id) => messageActions[action](id, body())),
    };
  const bulk = (of, rest) => post('/messages/bulk', { action, filter: of, ...rest });
  const dry = { dry_run: true, limit: COUNT_LIMIT };
  if (!CHANGES[action])
    return {
      loadCount: () => bulk(filter, dry),
      steps: () => untilDone(() => bulk(filter, { dry_run: false, limit: STEP, ...body() })),
    };
  const named = filter.state?.split(',') ?? ['pending'];
  if (!named.includes('pending'))
    return {
      loadCount: async () => ({ count: 0, more: false }),
      steps: async function* none() {
        /* only pending messages can be changed */
      },
    };
  const pending = { ...filter, state: 'pending' };
  return {
    loadCount: () => get('/messages/count', pending),
    steps: () =>
      byPages((after) => bulk(pending, { dry_run: false, limit: STEP, ...(after ? { after } : {}), ...body() })),
  };
}

function BulkDialog({ action, scope, onClose, onDone }) {
  const change = CHANGES[action];
  const [value, setValue] = useState(() => change?.first());
  const [reason, setReason] = useState('');
  const why = reason.trim() ? { reason: reason.trim() } : {};
  const body = () => (action === 'discard' && scope.ids ? undefined : { ...change?.body(value), ...why });
  const { loadCount, steps } = plan(action, scope, body);
  const options = { ...change?.line(value), reason: reason.trim() };
  const shell = scope.ids ? cli.some(action, scope.ids, options) : cli.matching(action, scope.filter, options);
  const { title, ask, verb, label } = text[action];
  return html`<${BulkAction}
    title=${title}
    ask=${ask}
    verb=${verb}
    button=${label}
    kind=${action === 'redrive' || change ? 'primary' : 'danger'}
    cli=${shell}
    ready=${!change || change.body(value) !== null}
    loadCount=${loadCount}
    steps=${steps}
    onDone=${onDone}
    onClose=${onClose}
  >
    ${change ? html`<${change.Fields} value=${value} onChange=${setValue} />` : null}
    <${Field} label=${text.reason} hint=${text.reasonHint}>
      <input value=${reason} maxlength="500" onInput=${(event) => setReason(event.target.value)} />
    <//>
  <//>`;
}

/** Toolbar of the list: counts and bulk actions. `total` is {count, more} of all matching messages. */
export function Selection({ shown, total, selected, everything, onSelect, onEverything, filter, onDone }) {
  const [action, setAction] = useState(null);
  const all = total ? approximate(count(total.count), total) + (total.more ? '+' : '') : null;
  const any = everything || selected.size > 0;
  const clear = () => {
    onSelect(new Set());
    onEverything(false);
  };
  const scope = everything ? { filter } : { ids: [...selected] };
  return html`<div class="selection">
    <span class=${any ? '' : 'faint'} role="status">
      ${everything
        ? messages.allSelected(all)
        : selected.size > 0
          ? messages.selected(count(selected.size))
          : messages.shown(count(shown), all)}
    </span>
    ${everything
      ? null
      : html`<button class="quiet small" disabled=${shown === 0} onClick=${() => onEverything(true)}>
          ${messages.allMatching(all)}
        </button>`}
    ${any ? html`<button class="quiet small" onClick=${clear}>${messages.clearSelection}</button>` : null}
    <div class="actions">
      ${ACTIONS.map(
        (one) =>
          html`<${ActionButton}
            key=${one}
            kind="small"
            disabled=${!any}
            cli=${everything ? cli.matching(one, filter) : cli.some(one, ['ID'])}
            onClick=${() => setAction(one)}
          >
            ${text[one].label}
          <//>`,
      )}
    </div>
    ${action
      ? html`<${BulkDialog}
          action=${action}
          scope=${scope}
          onClose=${() => setAction(null)}
          onDone=${() => {
            clear();
            onDone();
          }}
        />`
      : null}
  </div>`;
}
