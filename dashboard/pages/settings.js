// Settings page: users, tokens, webhooks, rules and the configuration, one tab each.

import { html } from '../lib/html.js';
import { hasRole, useSession } from '../lib/session.js';
import { to } from '../lib/route.js';
import { Head, Tabs } from '../lib/ui.js';
import { Account } from './settings/account.js';
import { Configuration, Rules } from './settings/configuration.js';
import { Tokens } from './settings/tokens.js';
import { Users } from './settings/users.js';
import { Webhooks } from './settings/webhooks.js';
import { settings as text } from '../texts.js';

const SHOWN = {
  users: Users,
  tokens: Tokens,
  webhooks: Webhooks,
  rules: Rules,
  configuration: Configuration,
  account: Account,
};

export function Settings({ route }) {
  const first = hasRole(useSession(), 'admin') ? 'users' : 'account';
  const tab = SHOWN[route.query.tab] ? route.query.tab : first;
  const Shown = SHOWN[tab];
  return html`
    <${Head} title=${text.title} about=${text.about} />
    <${Tabs}
      current=${tab}
      tabs=${Object.keys(SHOWN).map((id) => ({ id, label: text.tabs[id], href: to(['settings'], { tab: id }) }))}
    />
    <${Shown} key=${tab} />
  `;
}
