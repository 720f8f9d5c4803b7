// Admin gate: shows its content to administrators, and an explanation to others.

import { html } from '../../lib/html.js';
import { hasRole, useSession } from '../../lib/session.js';
import { Card, Empty } from '../../lib/ui.js';
import { settings as text, shell } from '../../texts.js';

export function ForAdmins({ children }) {
  const session = useSession();
  if (hasRole(session, 'admin')) return children;
  return html`<${Card}>
    <${Empty} title=${text.denied(shell.role[session.user?.role] ?? '–')} icon="!"><p>${text.deniedText}</p><//>
  <//>`;
}
