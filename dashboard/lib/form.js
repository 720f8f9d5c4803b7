// Form dialog: submits fields, shows the problems of the server at the fields, and checks the role.

import { html, useState } from './html.js';
import { hasRole, useSession } from './session.js';
import { CliCommand, Dialog } from './ui.js';
import { shell } from '../texts.js';

/** `children` receives the problems by field. `onDo` throws the error of the server. */
export function FormDialog({
  title,
  about,
  button,
  role = 'operator',
  kind = 'primary',
  cli,
  ready = true,
  wide = false,
  onDo,
  onClose,
  children,
}) {
  const allowed = hasRole(useSession(), role);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(null);
  const send = async () => {
    if (!ready || busy || !allowed) return;
    setBusy(true);
    try {
      await onDo();
      onClose();
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  const footer = html`
    <button type="button" onClick=${onClose}>${shell.cancel}</button>
    <button
      type="submit"
      class=${kind}
      onClick=${send}
      disabled=${!ready || busy || !allowed}
      aria-busy=${busy}
      title=${allowed ? null : shell.denied(role)}
    >
      ${button}
    </button>
  `;
  return html`<${Dialog} title=${title} onClose=${onClose} footer=${footer} wide=${wide}>
    ${allowed ? null : html`<p class="notice warn">${shell.denied(role)}</p>`}
    ${about ? html`<p class="soft">${about}</p>` : null}
    ${children(problem?.fields ?? {})}
    ${problem ? html`<p class="notice bad" role="alert">${problem.message}</p>` : null}
    ${cli ? html`<${CliCommand} command=${cli} />` : null}
  <//>`;
}

/** Instant of a date-and-time input, which is in the zone of the browser; null when it is empty. */
export const instantOf = (value) =>
  value && !Number.isNaN(new Date(value).getTime()) ? new Date(value).toISOString().replace('.000Z', 'Z') : null;

/** Value of a date-and-time input for an instant. */
export function inputOf(instant) {
  const date = new Date(instant);
  return new Date(date - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
