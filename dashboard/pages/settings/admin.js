// A part of the settings for administrators; others are told why they do not see it.

import { html } from '../../lib/html.js';
import { may, useSession } from '../../lib/session.js';
import { Card, Empty } from '../../lib/ui.js';
import { settings as text, shell } from '../../texts.js';

export function ForAdmins({ children }) {
  const session = useSession();
  if (may(session, 'admin')) return children;
  return html`<${Card}><${Empty} title=${text.denied(shell.role[session.user?.role] ?? '–')} icon="!"><p>${text.deniedText}</p><//><//>`;
}
