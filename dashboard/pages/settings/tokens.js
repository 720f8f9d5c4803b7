// Tokens tab. The secret of a new token is shown once.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, post, remove } from '../../lib/api.js';
import { tokens as cli } from '../../lib/cli_commands.js';
import { FormDialog } from '../../lib/form.js';
import { useLoad } from '../../lib/live.js';
import { Ago } from '../../lib/time.js';
import { ActionButton, Badge, Card, Confirm, Empty, Field, Loaded, Table, useToast } from '../../lib/ui.js';
import { Secret } from './secret.js';
import { settings } from '../../texts.js';

const text = settings.tokens;

function Add({ onClose, onMade }) {
  const [token, setToken] = useState({ name: '', scopes: ['read'], queues: '', expires_in: '90d' });
  const set = (changes) => setToken({ ...token, ...changes });
  const toggle = (scope) =>
    set({
      scopes: token.scopes.includes(scope) ? token.scopes.filter((one) => one !== scope) : [...token.scopes, scope],
    });
  const works = token.scopes.includes('work');
  const queues = works ? token.queues.split(/[\s,]+/).filter(Boolean) : [];
  const ready = token.name.trim() !== '' && token.scopes.length > 0 && (!works || queues.length > 0);
  const make = async () => {
    onMade(
      await post('/tokens', {
        name: token.name.trim(),
        scopes: token.scopes,
        queues,
        ...(token.expires_in ? { expires_in: token.expires_in } : {}),
      }),
    );
  };
  return html`<${FormDialog}
    title=${text.title}
    role="viewer"
    button=${text.button}
    ready=${ready}
    cli=${cli.create({ ...token, queues, name: token.name.trim() })}
    onDo=${make}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.name} hint=${text.nameHint} error=${wrong.name}>
        <input autofocus maxlength="100" value=${token.name} onInput=${(event) => set({ name: event.target.value })} />
      <//>
      <fieldset class="ticks">
        <legend>${text.scopes}</legend>
        ${Object.entries(text.scopeNames).map(
          ([scope, label]) =>
            html`<label key=${scope} class="tick">
              <input type="checkbox" checked=${token.scopes.includes(scope)} onChange=${() => toggle(scope)} />
              <span class="mono">${scope}</span> <span class="faint">${label}</span>
            </label>`,
        )}
        ${wrong.scopes ? html`<em class="error" role="alert">${wrong.scopes}</em>` : null}
      </fieldset>
      ${works
        ? html`<${Field} label=${text.queues} hint=${text.queuesHint} error=${wrong.queues}>
            <input value=${token.queues} onInput=${(event) => set({ queues: event.target.value })} />
          <//>`
        : null}
      <${Field} label=${text.expires} error=${wrong.expires_in}>
        <select value=${token.expires_in} onChange=${(event) => set({ expires_in: event.target.value })}>
          ${Object.entries(text.lifetimes).map(([id, label]) => html`<option key=${id} value=${id}>${label}</option>`)}
        </select>
      <//>
    `}
  <//>`;
}

const ExpiryCell = ({ token }) =>
  token.expires_at && new Date(token.expires_at) < Date.now()
    ? html`<${Badge} tone="bad">${text.ended}<//>`
    : html`<${Ago} at=${token.expires_at} />`;

const columns = (setOpen) => [
  { id: 'name', label: text.columns.name, cell: (token) => html`<b class="clip" title=${token.id}>${token.name}</b>` },
  {
    id: 'scopes',
    label: text.columns.scopes,
    cell: (token) =>
      html`<span class="flags">
        ${token.scopes.map(
          (scope) =>
            html`<${Badge} key=${scope} tone=${scope === 'admin' ? 'busy' : 'mute'} title=${text.scopeNames[scope]}>
              ${scope}
            <//>`,
        )}
      </span>`,
  },
  {
    id: 'queues',
    label: text.columns.queues,
    cell: (token) => html`<span class="clip">${(token.queues ?? []).join(', ')}</span>`,
  },
  { id: 'user', label: text.columns.user, cell: (token) => token.user },
  {
    id: 'created',
    label: text.columns.created,
    class: 'nowrap',
    cell: (token) => html`<${Ago} at=${token.created_at} />`,
  },
  { id: 'used', label: text.columns.used, class: 'nowrap', cell: (token) => html`<${Ago} at=${token.last_used_at} />` },
  {
    id: 'expires',
    label: text.columns.expires,
    class: 'nowrap',
    cell: (token) => html`<${ExpiryCell} token=${token} />`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (token) =>
      html`<${ActionButton}
        role="viewer"
        kind="small"
        label=${`${text.remove}: ${token.name}`}
        cli=${cli.revoke(token.id)}
        onClick=${() => setOpen({ remove: token })}
      >
        ${text.remove}
      <//>`,
  },
];

export function Tokens() {
  const [open, setOpen] = useState(null);
  const toast = useToast();
  const loaded = useLoad((signal) => get('/tokens', { limit: 1000 }, { signal }), 'tokens');
  const close = () => setOpen(null);
  const drop = async () => {
    await remove(`/tokens/${pathSegment(open.remove.id)}`);
    toast({ text: text.removed(open.remove.name) });
    loaded.reload();
  };
  const made = (token) => {
    loaded.reload();
    setTimeout(() => setOpen({ secret: token.secret }), 0);
  };
  return html`
    <${Card}
      flush
      title=${settings.tabs.tokens}
      actions=${html`<${ActionButton}
        role="viewer"
        kind="small"
        cli=${cli.create()}
        onClick=${() => setOpen({ add: true })}
      >
        ${text.add}
      <//>`}
    >
      <${Loaded} of=${loaded}>
        ${({ items }) =>
          html`<${Table}
            label=${settings.tabs.tokens}
            columns=${columns(setOpen)}
            rows=${items}
            id=${(token) => token.id}
            empty=${html`<${Empty} title=${text.none}><p>${text.noneText}</p><//>`}
          />`}
      <//>
    <//>
    ${open?.add ? html`<${Add} onClose=${close} onMade=${made} />` : null}
    ${open?.secret
      ? html`<${Secret}
          title=${text.secretTitle}
          about=${text.secret}
          value=${open.secret}
          button=${text.done}
          onClose=${close}
        />`
      : null}
    ${open?.remove
      ? html`<${Confirm}
          title=${text.removeTitle(open.remove.name)}
          text=${text.removeText}
          button=${text.remove}
          cli=${cli.revoke(open.remove.id)}
          onDo=${drop}
          onClose=${close}
        />`
      : null}
  `;
}
