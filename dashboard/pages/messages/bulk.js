// The actions for many messages: those that are selected, or all that match the filter.

import { html, useState } from '../../lib/html.js';
import { get, post } from '../../lib/api.js';
import { messages as cli } from '../../lib/lines.js';
import { does } from '../../lib/message.js';
import { count } from '../../lib/number.js';
import { Sweep, bounded, each } from '../../lib/sweep.js';
import { Act, Field } from '../../lib/ui.js';
import { DueFields, dueOf, lineOf } from './due.js';
import { messages } from '../../texts.js';

const text = messages.bulk;
const LOOKED_AT_MAX = 10_000;
const STEP = 500;
const ACTIONS = ['redrive', 'cancel', 'reschedule', 'discard'];

/** Every id that matches, page by page, each with its call: for what the server has no single call for. */
async function* paged(filter, call) {
  for (let after = null; ;) {
    const page = await get('/messages', { ...filter, limit: STEP, after });
    yield* each(page.items.map((message) => message.id), call);
    if (!page.next) return;
    after = page.next;
  }
}

/** How an action is counted and done: for chosen ids, or for a filter. */
function plan(action, { ids, filter }, body) {
  const call = (id) => does[action](id, body());
  if (ids) return { look: async () => ({ count: ids.length, more: false }), steps: () => each(ids, call) };
  if (action === 'reschedule') {
    const named = filter.state?.split(',') ?? ['pending'];
    if (!named.includes('pending')) return { look: async () => ({ count: 0, more: false }), steps: async function* none() { /* only pending ones have a time to come */ } };
    const pending = { ...filter, state: 'pending' };
    return { look: () => get('/messages/count', pending), steps: () => paged(pending, call) };
  }
  const sweep = (rest) => post('/messages/bulk', { action, filter, ...rest });
  return { look: () => sweep({ dry_run: true, limit: LOOKED_AT_MAX }), steps: () => bounded(() => sweep({ dry_run: false, limit: STEP, ...body() })) };
}

function BulkDialog({ action, scope, onClose, onDone }) {
  const [due, setDue] = useState({ way: 'in', length: '5m', at: '' });
  const [reason, setReason] = useState('');
  const why = reason.trim() ? { reason: reason.trim() } : {};
  const body = () => (action === 'reschedule' ? { ...dueOf(due), ...why } : action === 'discard' && scope.ids ? undefined : why);
  const { look, steps } = plan(action, scope, body);
  const options = { ...(action === 'reschedule' ? lineOf(due) : {}), reason: reason.trim() };
  const shell = scope.ids ? cli.some(action, scope.ids, options) : cli.matching(action, scope.filter, options);
  const { title, ask, verb, label } = text[action];
  return html`<${Sweep} title=${title} ask=${ask} verb=${verb} button=${label} kind=${action === 'redrive' || action === 'reschedule' ? 'primary' : 'danger'} cli=${shell}
      ready=${action !== 'reschedule' || dueOf(due) !== null} look=${look} steps=${steps} onDone=${onDone} onClose=${onClose}>
    ${action === 'reschedule' ? html`<${DueFields} value=${due} onChange=${setDue} />` : null}
    <${Field} label=${text.reason} hint=${text.reasonHint}><input value=${reason} maxlength="500" onInput=${(event) => setReason(event.target.value)} /><//>
  <//>`;
}

/** The head of the list: how many are shown or selected, and the actions. `total` is {count, more} of all that match. */
export function Selection({ shown, total, selected, everything, onSelect, onEverything, filter, onDone }) {
  const [action, setAction] = useState(null);
  const all = total ? `${count(total.count)}${total.more ? '+' : ''}` : null;
  const any = everything || selected.size > 0;
  const clear = () => { onSelect(new Set()); onEverything(false); };
  const scope = everything ? { filter } : { ids: [...selected] };
  return html`<div class="selection">
    <span class=${any ? '' : 'faint'} role="status">${everything ? messages.allSelected(all) : selected.size > 0 ? messages.selected(count(selected.size)) : messages.shown(count(shown), all)}</span>
    ${everything ? null : html`<button class="quiet small" disabled=${shown === 0} onClick=${() => onEverything(true)}>${messages.allMatching(all)}</button>`}
    ${any ? html`<button class="quiet small" onClick=${clear}>${messages.clearSelection}</button>` : null}
    <div class="actions">${ACTIONS.map((one) => html`<${Act} key=${one} kind="small" disabled=${!any} cli=${everything ? cli.matching(one, filter) : cli.some(one, ['ID'])} onClick=${() => setAction(one)}>${text[one].label}<//>`)}</div>
    ${action ? html`<${BulkDialog} action=${action} scope=${scope} onClose=${() => setAction(null)} onDone=${() => { clear(); onDone(); }} />` : null}
  </div>`;
}
