// What can be done to a one-time job that an application planned, while it waits: hold it back, let it go, run it now.

import { html, useState } from '../../lib/html.js';
import { part, post } from '../../lib/api.js';
import { FormDialog } from '../../lib/form.js';
import { planned as cli } from '../../lib/lines.js';
import { Act, Field, useToast } from '../../lib/ui.js';
import { message } from '../../texts.js';

const text = message.planned;

/** Whether a message is a one-time job that an application planned, maybe sent again, and that waits. */
export const isPlanned = (of) => of.planned && of.state === 'pending';

function Ask({ action, of, onClose, onDone }) {
  const toast = useToast();
  const [reason, setReason] = useState('');
  const pauses = action === 'pause';
  const run = async () => {
    await post(`/jobs/${part(of.job)}/planned/${action}`, { key: of.key, ...(pauses ? { reason: reason.trim() } : {}) });
    toast({ text: text[`${action}Done`] });
    onDone();
  };
  return html`<${FormDialog} title=${text[`${action}Title`]} about=${text[`${action}Text`]} button=${text[action]} kind="primary" ready=${!pauses || reason.trim() !== ''} cli=${cli[action](of.job, of.key, { reason: reason.trim() })} onDo=${run} onClose=${onClose}>${(wrong) => (pauses ? html`
    <${Field} label=${text.reason} hint=${text.reasonHint} error=${wrong.reason}><input maxlength="1000" value=${reason} onInput=${(event) => setReason(event.target.value)} /><//>` : null)}<//>`;
}

/** The buttons. One without a key cannot be told from others of its name, so they are off. */
export function PlannedActions({ of, onDone }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const button = (action) => html`<${Act} disabled=${of.key === null} title=${of.key === null ? text.noKey : null} cli=${cli[action](of.job, of.key)} onClick=${() => setOpen(action)}>${text[action]}<//>`;
  return html`${of.paused ? button('resume') : button('pause')}${button('trigger')}
    ${open ? html`<${Ask} action=${open} of=${of} onClose=${close} onDone=${() => { close(); onDone(); }} />` : null}`;
}
