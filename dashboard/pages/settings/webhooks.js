// Webhooks tab: addresses that are called on events, with a test call and the list of deliveries.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, patch, post, remove } from '../../lib/api.js';
import { webhooks as commands } from '../../lib/cli_commands.js';
import { FormDialog } from '../../lib/form.js';
import { useLoad } from '../../lib/live.js';
import { Ago } from '../../lib/time.js';
import { ActionButton, Badge, Card, Confirm, Empty, Field, Loaded, Table, useToast } from '../../lib/ui.js';
import { ForAdmins } from './admin.js';
import { Deliveries } from './deliveries.js';
import { Secret } from './secret.js';
import { settings } from '../../texts.js';

const text = settings.webhooks;
const FILTERS = ['job', 'topic', 'queue'];

function Form({ hook, onClose, onDone, onSecret }) {
  const [now, setNow] = useState({
    url: hook?.url ?? '',
    events: (hook?.events ?? ['message.dead']).join(' '),
    enabled: hook?.enabled ?? true,
    ...Object.fromEntries(FILTERS.map((name) => [name, hook?.filter?.[name] ?? ''])),
  });
  const toast = useToast();
  const set = (changes) => setNow({ ...now, ...changes });
  const events = now.events.split(/[\s,]+/).filter(Boolean);
  const filter = Object.fromEntries(FILTERS.filter((name) => now[name].trim()).map((name) => [name, now[name].trim()]));
  const save = async () => {
    const body = { url: now.url.trim(), events, filter };
    const response = hook
      ? await patch(`/webhooks/${pathSegment(hook.id)}`, { ...body, enabled: now.enabled })
      : await post('/webhooks', body);
    toast({ text: hook ? text.saved : text.added });
    onDone();
    if (response?.secret) onSecret(response.secret);
  };
  const body = { url: now.url.trim(), events, filter };
  const cli = hook ? commands.edit(hook, { ...body, enabled: now.enabled }) : commands.add(body);
  return html`<${FormDialog}
    title=${hook ? text.editTitle : text.title}
    role="admin"
    button=${hook ? text.save : text.button}
    ready=${now.url.trim() !== '' && events.length > 0}
    cli=${cli}
    onDo=${save}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.url} hint=${text.urlHint} error=${wrong.url}>
        <input
          type="url"
          autofocus
          value=${now.url}
          placeholder="https://"
          onInput=${(event) => set({ url: event.target.value })}
        />
      <//>
      <${Field} label=${text.events} hint=${text.eventsHint} error=${wrong.events}>
        <input class="mono" value=${now.events} onInput=${(event) => set({ events: event.target.value })} />
      <//>
      <div class="columns">
        ${FILTERS.map(
          (name) =>
            html`<${Field} key=${name} label=${text[name]} error=${wrong[`filter.${name}`]}>
              <input value=${now[name]} onInput=${(event) => set({ [name]: event.target.value })} />
            <//>`,
        )}
      </div>
      ${hook
        ? html`<label class="tick">
            <input
              type="checkbox"
              checked=${now.enabled}
              onChange=${(event) => set({ enabled: event.target.checked })}
            />
            ${text.enabled}
          </label>`
        : null}
    `}
  <//>`;
}

const HookState = ({ hook }) =>
  html`<span class="two-commands">
    <${Badge} tone=${hook.enabled ? 'good' : 'warn'} title=${hook.disabled_reason}>
      ${hook.enabled ? text.on : text.off}
    <//>
    ${hook.disabled_reason
      ? html`<span class="small-text failure clip" title=${hook.disabled_reason}>${hook.disabled_reason}</span>`
      : hook.failures > 0
        ? html`<span class="small-text failure clip" title=${hook.last_error}>
            ${text.failures(hook.failures)}
            ${hook.last_error ? `: ${hook.last_error}` : ''}
          </span>`
        : null}
  </span>`;

function RowActions({ hook, setOpen, onDone }) {
  const toast = useToast();
  const test = async () => {
    const { ending, note } = await post(`/webhooks/${pathSegment(hook.id)}/test`);
    if (!ending) toast({ tone: 'warn', text: text.testWaits });
    else if (ending === 'succeeded') toast({ text: text.tested(note) });
    else toast({ tone: 'bad', text: text.testFailed(note ?? ending) });
    onDone();
  };
  const act = (label, cli, onClick) =>
    html`<${ActionButton} role="admin" kind="small" label=${`${label}: ${hook.url}`} cli=${cli} onClick=${onClick}>
      ${label}
    <//>`;
  return html`<span class="row-actions">
    ${act(text.test, commands.test(hook.id), test)}
    ${act(text.deliveries, commands.deliveries(hook.id), () => setOpen({ deliveries: hook }))}
    ${act(text.edit, commands.edit(hook), () => setOpen({ edit: hook }))}
    ${act(text.remove, commands.remove(hook.id), () => setOpen({ remove: hook }))}
  </span>`;
}

const columns = (setOpen, onDone) => [
  { id: 'url', label: text.columns.url, cell: (hook) => html`<b class="clip long" title=${hook.url}>${hook.url}</b>` },
  {
    id: 'events',
    label: text.columns.events,
    cell: (hook) =>
      html`<span class="flags">
        ${hook.events.map((event) => html`<${Badge} key=${event}>${event}<//>`)}
        ${Object.entries(hook.filter ?? {}).map(
          ([name, value]) => html`<${Badge} key=${name} tone="idle">${name}: ${value}<//>`,
        )}
      </span>`,
  },
  { id: 'state', label: text.columns.state, cell: (hook) => html`<${HookState} hook=${hook} />` },
  {
    id: 'last',
    label: text.columns.last,
    class: 'nowrap',
    cell: (hook) =>
      hook.last_at
        ? html`<span class="two-commands">
            <${Ago} at=${hook.last_at} />
            ${hook.last_status ? html`<span class="faint small-text">${text.status(hook.last_status)}</span>` : null}
          </span>`
        : html`<span class="faint">${text.never}</span>`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (hook) => html`<${RowActions} hook=${hook} setOpen=${setOpen} onDone=${onDone} />`,
  },
];

function List() {
  const [open, setOpen] = useState(null);
  const toast = useToast();
  const loaded = useLoad((signal) => get('/webhooks', { limit: 1000 }, { signal }), 'webhooks', {
    every: 5_000,
    poll: true,
  });
  const close = () => setOpen(null);
  const drop = async () => {
    await remove(`/webhooks/${pathSegment(open.remove.id)}`);
    toast({ text: text.removed });
    loaded.reload();
  };
  const secret = (value) => setTimeout(() => setOpen({ secret: value }), 0);
  return html`
    <${Card}
      flush
      title=${settings.tabs.webhooks}
      actions=${html`<${ActionButton}
        role="admin"
        kind="small"
        cli=${commands.add()}
        onClick=${() => setOpen({ add: true })}
      >
        ${text.add}
      <//>`}
    >
      <${Loaded} of=${loaded}>
        ${({ items }) =>
          html`<${Table}
            label=${settings.tabs.webhooks}
            columns=${columns(setOpen, loaded.reload)}
            rows=${items}
            id=${(hook) => hook.id}
            empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
          />`}
      <//>
    <//>
    ${open?.add || open?.edit
      ? html`<${Form} hook=${open.edit} onClose=${close} onDone=${loaded.reload} onSecret=${secret} />`
      : null}
    ${open?.secret
      ? html`<${Secret}
          title=${text.secretTitle}
          about=${text.secret}
          value=${open.secret}
          button=${settings.tokens.done}
          onClose=${close}
        />`
      : null}
    ${open?.deliveries ? html`<${Deliveries} hook=${open.deliveries} onClose=${close} />` : null}
    ${open?.remove
      ? html`<${Confirm}
          title=${text.removeTitle}
          text=${text.removeText}
          button=${text.remove}
          cli=${commands.remove(open.remove.id)}
          onDo=${drop}
          onClose=${close}
        >
          <p class="mono">${open.remove.url}</p>
        <//>`
      : null}
  `;
}

export const Webhooks = () => html`<${ForAdmins}><${List} /><//>`;
