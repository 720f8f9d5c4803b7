// Actions of a planned one-time job while it is pending: pause, resume, run now.

import { html, useState } from '../../lib/html.js';
import { pathSegment, post } from '../../lib/api.js';
import { FormDialog } from '../../lib/form.js';
import { planned as cli } from '../../lib/cli_commands.js';
import { ActionButton, Field, useToast } from '../../lib/ui.js';
import { message } from '../../texts.js';

const text = message.planned;

/** Whether a message is a pending one-time job that an application planned; a redriven one counts as well. */
export const isPlanned = (of) => of.planned && of.state === 'pending';

function ConfirmAction({ action, of, onClose, onDone }) {
  const toast = useToast();
  const [reason, setReason] = useState('');
  const pauses = action === 'pause';
  const run = async () => {
    await post(`/jobs/${pathSegment(of.job)}/planned/${action}`, {
      key: of.key,
      ...(pauses ? { reason: reason.trim() } : {}),
    });
    toast({ text: text[`${action}Done`] });
    onDone();
  };
  return html`<${FormDialog}
    title=${text[`${action}Title`]}
    about=${text[`${action}Text`]}
    button=${text[action]}
    kind="primary"
    ready=${!pauses || reason.trim() !== ''}
    cli=${cli[action](of.job, of.key, { reason: reason.trim() })}
    onDo=${run}
    onClose=${onClose}
  >
    ${(wrong) =>
      pauses
        ? html`<${Field} label=${text.reason} hint=${text.reasonHint} error=${wrong.reason}>
            <input maxlength="1000" value=${reason} onInput=${(event) => setReason(event.target.value)} />
          <//>`
        : null}
  <//>`;
}

/** Buttons, disabled for a job without a key: it cannot be distinguished from others of its name. */
export function PlannedActions({ of, onDone }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const button = (action) =>
    html`<${ActionButton}
      disabled=${of.key === null}
      title=${of.key === null ? text.noKey : null}
      cli=${cli[action](of.job, of.key)}
      onClick=${() => setOpen(action)}
    >
      ${text[action]}
    <//>`;
  return html`
    ${of.paused ? button('resume') : button('pause')}
    ${button('trigger')}
    ${open
      ? html`<${ConfirmAction}
          action=${open}
          of=${of}
          onClose=${close}
          onDone=${() => {
            close();
            onDone();
          }}
        />`
      : null}
  `;
}
