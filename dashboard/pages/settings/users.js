// Users tab: accounts and their roles.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, patch, post, remove } from '../../lib/api.js';
import { users as cli } from '../../lib/cli_commands.js';
import { FormDialog } from '../../lib/form.js';
import { useLoad } from '../../lib/live.js';
import { useSession } from '../../lib/session.js';
import { Ago } from '../../lib/time.js';
import { ActionButton, Badge, Card, Confirm, Empty, Field, Loaded, Table, useToast } from '../../lib/ui.js';
import { ForAdmins } from './admin.js';
import { settings } from '../../texts.js';

const text = settings.users;
const TONES = { admin: 'busy', operator: 'idle', viewer: 'mute' };

const RoleField = ({ value, onChange, wrong }) =>
  html`<${Field} label=${text.role} error=${wrong}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${Object.entries(text.roles).map(([id, label]) => html`<option key=${id} value=${id}>${label}</option>`)}
    </select>
  <//>`;

function Add({ onClose, onDone }) {
  const least = useSession().password_length_min;
  const [user, setUser] = useState({ name: '', role: 'viewer', password: '' });
  const toast = useToast();
  const set = (changes) => setUser({ ...user, ...changes });
  const add = async () => {
    await post('/users', { ...user, name: user.name.trim() });
    toast({ text: text.added(user.name.trim()) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title}
    role="admin"
    button=${text.button}
    ready=${user.name.trim() !== '' && user.password !== ''}
    cli=${cli.add(user.name.trim(), user.role)}
    onDo=${add}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.name} error=${wrong.name}>
        <input
          autofocus
          autocomplete="off"
          value=${user.name}
          onInput=${(event) => set({ name: event.target.value })}
        />
      <//>
      <${RoleField} value=${user.role} onChange=${(role) => set({ role })} wrong=${wrong.role} />
      <${Field} label=${text.password} hint=${text.passwordHint(least)} error=${wrong.password}>
        <input
          type="password"
          autocomplete="new-password"
          value=${user.password}
          onInput=${(event) => set({ password: event.target.value })}
        />
      <//>
    `}
  <//>`;
}

function Edit({ user, onClose, onDone }) {
  const least = useSession().password_length_min;
  const [now, setNow] = useState({ role: user.role, password: '', disabled: user.disabled });
  const toast = useToast();
  const set = (changes) => setNow({ ...now, ...changes });
  const save = async () => {
    await patch(`/users/${pathSegment(user.name)}`, {
      ...(now.role === user.role ? {} : { role: now.role }),
      ...(now.password ? { password: now.password } : {}),
      ...(now.disabled === user.disabled ? {} : { disabled: now.disabled }),
    });
    toast({ text: text.saved(user.name) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.editTitle(user.name)}
    role="admin"
    button=${text.save}
    cli=${cli.change(user, now)}
    onDo=${save}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${RoleField} value=${now.role} onChange=${(role) => set({ role })} wrong=${wrong.role} />
      <${Field} label=${text.newPassword} hint=${text.newPasswordHint(least)} error=${wrong.password}>
        <input
          type="password"
          autocomplete="new-password"
          value=${now.password}
          onInput=${(event) => set({ password: event.target.value })}
        />
      <//>
      <label class="tick">
        <input type="checkbox" checked=${now.disabled} onChange=${(event) => set({ disabled: event.target.checked })} />
        ${text.isDisabled}
      </label>
      ${now.disabled && !user.disabled ? html`<p class="small-text faint">${text.disabledHint}</p>` : null}
    `}
  <//>`;
}

const columns = (me, setOpen) => [
  {
    id: 'name',
    label: text.columns.name,
    cell: (user) =>
      html`<span class="inline">
        <b>${user.name}</b>
        ${user.name === me ? html`<${Badge}>${text.you}<//>` : null}
        ${user.disabled ? html`<${Badge} tone="warn">${text.disabled}<//>` : null}
      </span>`,
  },
  { id: 'role', label: text.columns.role, cell: (user) => html`<${Badge} tone=${TONES[user.role]}>${user.role}<//>` },
  {
    id: 'created',
    label: text.columns.created,
    class: 'nowrap',
    cell: (user) => html`<${Ago} at=${user.created_at} />`,
  },
  {
    id: 'login',
    label: text.columns.login,
    class: 'nowrap',
    cell: (user) => html`<${Ago} at=${user.last_login_at} />`,
  },
  {
    id: 'actions',
    label: text.columns.actions,
    class: 'right',
    cell: (user) => html`<span class="row-actions">
      <${ActionButton}
        role="admin"
        kind="small"
        label=${`${text.edit}: ${user.name}`}
        cli=${cli.change(user)}
        onClick=${() => setOpen({ edit: user })}
      >
        ${text.edit}
      <//>
      <${ActionButton}
        role="admin"
        kind="small"
        label=${`${text.remove}: ${user.name}`}
        disabled=${user.name === me}
        cli=${cli.remove(user.name)}
        onClick=${() => setOpen({ remove: user })}
      >
        ${text.remove}
      <//>
    </span>`,
  },
];

function List() {
  const session = useSession();
  const [open, setOpen] = useState(null);
  const toast = useToast();
  const loaded = useLoad((signal) => get('/users', { limit: 1000 }, { signal }), 'users');
  const close = () => setOpen(null);
  const drop = async () => {
    await remove(`/users/${pathSegment(open.remove.name)}`);
    toast({ text: text.removed(open.remove.name) });
    loaded.reload();
  };
  return html`
    <${Card}
      flush
      title=${settings.tabs.users}
      actions=${html`<${ActionButton}
        role="admin"
        kind="small"
        cli=${cli.add()}
        onClick=${() => setOpen({ add: true })}
      >
        ${text.add}
      <//>`}
    >
      <${Loaded} of=${loaded}>
        ${({ items }) =>
          html`<${Table}
            label=${settings.tabs.users}
            columns=${columns(session.user?.name, setOpen)}
            rows=${items}
            id=${(user) => user.name}
            empty=${html`<${Empty} title=${text.none}><p>${text.noneText(session.auth)}</p><//>`}
          />`}
      <//>
    <//>
    ${open?.add ? html`<${Add} onClose=${close} onDone=${loaded.reload} />` : null}
    ${open?.edit ? html`<${Edit} user=${open.edit} onClose=${close} onDone=${loaded.reload} />` : null}
    ${open?.remove
      ? html`<${Confirm}
          title=${text.removeTitle(open.remove.name)}
          text=${text.removeText}
          button=${text.remove}
          cli=${cli.remove(open.remove.name)}
          onDo=${drop}
          onClose=${close}
        />`
      : null}
  `;
}

export const Users = () => html`<${ForAdmins}><${List} /><//>`;
