// Control dialogs of a queue: pause, set the concurrency, purge.

import { html, useState } from '../../lib/html.js';
import { FormDialog, inputOf, instantOf } from '../../lib/form.js';
import { queues as cli } from '../../lib/cli_commands.js';
import { queueActions } from '../../lib/queue.js';
import { BulkAction, untilDone } from '../../lib/bulk_action.js';
import { Field, useToast } from '../../lib/ui.js';
import { queues as text } from '../../texts.js';

const HOUR = 3_600_000;
const HOURS = { '1h': 1, '8h': 8, '24h': 24 };

function pauseEnd(until, own) {
  if (until === 'own') return instantOf(own);
  return HOURS[until] ? new Date(Math.floor(Date.now() / 60_000) * 60_000 + HOURS[until] * HOUR).toISOString() : null;
}

export function PauseQueue({ name, onClose, onDone }) {
  const toast = useToast();
  const [reason, setReason] = useState('');
  const [until, setUntil] = useState('');
  const [own, setOwn] = useState(() => inputOf(Date.now() + HOUR));
  const request = { reason: reason.trim(), ...(pauseEnd(until, own) ? { until: pauseEnd(until, own) } : {}) };
  const pause = async () => {
    await queueActions.pause(name, request);
    toast({ text: text.pause.done(name) });
    onDone();
  };
  const ready = reason.trim() !== '' && (until !== 'own' || Boolean(instantOf(own)));
  return html`<${FormDialog}
    title=${text.pause.title(name)}
    about=${text.pause.about}
    button=${text.pause.button}
    ready=${ready}
    cli=${cli.pause(name, request)}
    onDo=${pause}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.pause.reason} hint=${text.pause.reasonHint} error=${wrong.reason}>
        <input autofocus required maxlength="500" value=${reason} onInput=${(event) => setReason(event.target.value)} />
      <//>
      <${Field} label=${text.pause.until} error=${wrong.until}>
        <select value=${until} onChange=${(event) => setUntil(event.target.value)}>
          ${Object.entries(text.pause.pauseEnds).map(
            ([id, label]) => html`<option key=${id} value=${id}>${label}</option>`,
          )}
        </select>
      <//>
      ${until === 'own'
        ? html`<${Field} label=${text.pause.own}>
            <input type="datetime-local" value=${own} onInput=${(event) => setOwn(event.target.value)} />
          <//>`
        : null}
    `}
  <//>`;
}

export function Concurrency({ queue, onClose, onDone }) {
  const toast = useToast();
  const [max, setMax] = useState(String(queue.concurrency ?? queue.serving?.[0]?.concurrency ?? 10));
  const number = Number(max);
  const set = async () => {
    await queueActions.concurrency(queue.name, number);
    toast({ text: text.concurrency.done(number) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.concurrency.title(queue.name)}
    about=${text.concurrency.about}
    button=${text.concurrency.button}
    ready=${Number.isInteger(number) && number >= 1 && number <= 10_000}
    cli=${cli.concurrency(queue.name, max)}
    onDo=${set}
    onClose=${onClose}
  >
    ${(wrong) => html`<${Field} label=${text.concurrency.max} hint=${text.concurrency.hint} error=${wrong.max}>
      <input
        type="number"
        min="1"
        max="10000"
        autofocus
        value=${max}
        onInput=${(event) => setMax(event.target.value)}
      />
    <//>`}
  <//>`;
}

export function Purge({ name, onClose, onDone }) {
  const [typed, setTyped] = useState('');
  const [reason, setReason] = useState('');
  const why = reason.trim() ? { reason: reason.trim() } : {};
  return html`<${BulkAction}
    title=${text.purge.title(name)}
    ask=${text.purge.ask}
    verb=${text.purge.verb}
    button=${text.purge.button}
    cli=${cli.purge(name, why)}
    ready=${typed.trim() === name}
    loadCount=${() => queueActions.purge(name, { dry_run: true })}
    steps=${() => untilDone(() => queueActions.purge(name, { dry_run: false, ...why }))}
    onClose=${onClose}
    onDone=${onDone}
  >
    <${Field} label=${text.purge.type(name)}>
      <input value=${typed} autocomplete="off" onInput=${(event) => setTyped(event.target.value)} />
    <//>
    <${Field} label=${text.purge.reason}>
      <input value=${reason} maxlength="500" onInput=${(event) => setReason(event.target.value)} />
    <//>
  <//>`;
}
