// Pause dialog of a job, with a reason and an end.

import { html, useState } from '../../lib/html.js';
import { FormDialog, inputOf, instantOf } from '../../lib/form.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { Field, useToast } from '../../lib/ui.js';
import { job } from '../../texts.js';

const text = job.pause;
const HOURS = { '1h': 1, '8h': 8, '24h': 24 };
const HOUR = 3_600_000;

function pauseEnd(until, own) {
  if (until === 'own') return instantOf(own);
  return HOURS[until] ? instantOf(Math.floor(Date.now() / 60_000) * 60_000 + HOURS[until] * HOUR) : null;
}

export function Pause({ name, onClose, onDone }) {
  const toast = useToast();
  const [reason, setReason] = useState('');
  const [until, setUntil] = useState('');
  const [own, setOwn] = useState(() => inputOf(Date.now() + HOUR));
  const request = () => ({ reason: reason.trim(), ...(pauseEnd(until, own) ? { until: pauseEnd(until, own) } : {}) });
  const pause = async () => {
    await jobActions.pause(name, request());
    toast({ text: text.done(name) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title(name)}
    about=${text.about}
    button=${text.button}
    ready=${reason.trim() !== '' && (until !== 'own' || instantOf(own))}
    cli=${cli.pause(name, request())}
    onDo=${pause}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.reason} hint=${text.reasonHint} error=${wrong.reason}>
        <input autofocus required maxlength="500" value=${reason} onInput=${(event) => setReason(event.target.value)} />
      <//>
      <${Field} label=${text.until} error=${wrong.until}>
        <select value=${until} onChange=${(event) => setUntil(event.target.value)}>
          ${Object.entries(text.pauseEnds).map(([id, label]) => html`<option key=${id} value=${id}>${label}</option>`)}
        </select>
      <//>
      ${until === 'own'
        ? html`<${Field} label=${text.own}>
            <input type="datetime-local" value=${own} onInput=${(event) => setOwn(event.target.value)} />
          <//>`
        : null}
    `}
  <//>`;
}
