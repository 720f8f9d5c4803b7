// Group actions: the chart of hours and the buttons that the list of groups and the page of a group share.

import { html, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { FormDialog } from '../../lib/form.js';
import { dead as cli } from '../../lib/cli_commands.js';
import { messagePage } from '../../lib/links.js';
import { messageActions } from '../../lib/message.js';
import { count } from '../../lib/number.js';
import { BulkAction, untilDone } from '../../lib/bulk_action.js';
import { ActionButton, Field, useToast } from '../../lib/ui.js';
import { dead as text } from '../../texts.js';

const LOOKED_AT_MAX = 10_000;
const STEP = 500;

/** Bar chart of dead letters per hour. */
export function Hours({ values, width = 120, height = 26 }) {
  const top = Math.max(1, ...values);
  const step = width / values.length;
  return html`<svg
    class="per-hour"
    viewBox=${`0 0 ${width} ${height}`}
    width=${width}
    height=${height}
    role="img"
    aria-label=${text.perHour(count(values.reduce((sum, one) => sum + one, 0)))}
  >
    ${values.map(
      (value, at) =>
        html`<rect
          key=${at}
          class=${value ? 'some' : ''}
          x=${at * step + 0.5}
          width=${Math.max(1, step - 1)}
          y=${height - Math.max(1, (value / top) * height)}
          height=${Math.max(1, (value / top) * height)}
        >
          <title>${text.group.hour(values.length - 1 - at)}: ${count(value)}</title>
        </rect>`,
    )}
  </svg>`;
}

function SampleDialog({ group, onClose, onDone }) {
  const toast = useToast();
  const send = async () => {
    await messageActions.redrive(group.sample_id, {});
    toast({ text: text.sample.done });
    onDone();
    location.hash = messagePage(group.sample_id);
  };
  return html`<${FormDialog}
    title=${text.sample.title}
    about=${text.sample.text}
    button=${text.sample.label}
    cli=${cli.sample(group.sample_id)}
    onDo=${send}
    onClose=${onClose}
  >
    ${() => html`<pre>${group.error ?? text.noError}</pre>`}
  <//>`;
}

function GroupDialog({ verb, group, onClose, onDone }) {
  const [note, setNote] = useState('');
  const noteBody = note.trim() ? { note: note.trim() } : {};
  const call = (rest) => post(`/dead-letters/${verb}`, { fingerprint: group.fingerprint, ...rest });
  const own = text[verb];
  return html`<${BulkAction}
    title=${own.title}
    ask=${own.ask}
    verb=${own.verb}
    button=${own.label}
    kind=${verb === 'discard' ? 'danger' : 'primary'}
    cli=${cli[verb](group.fingerprint, note.trim())}
    ready=${verb === 'redrive' || note.trim() !== ''}
    loadCount=${() => call({ dry_run: true, limit: LOOKED_AT_MAX })}
    steps=${() => untilDone(() => call({ dry_run: false, limit: STEP, ...noteBody }))}
    onClose=${onClose}
    onDone=${onDone}
  >
    <pre>${group.error ?? text.noError}</pre>
    <${Field} label=${own.note} hint=${own.noteHint}>
      <input
        maxlength="500"
        required=${verb === 'discard'}
        value=${note}
        onInput=${(event) => setNote(event.target.value)}
      />
    <//>
  <//>`;
}

/** Buttons of a group. */
export function GroupActions({ group, onDone, kind = 'small' }) {
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const named = (label) => `${label}: ${group.error ?? group.topic}`;
  return html`<span class="row-actions">
    <${ActionButton}
      kind=${kind}
      label=${named(text.sample.label)}
      title=${text.sample.title}
      cli=${cli.sample(group.sample_id)}
      onClick=${() => setOpen('sample')}
    >
      ${text.sample.label}
    <//>
    <${ActionButton}
      kind=${kind}
      label=${named(text.redrive.label)}
      title=${text.redrive.title}
      cli=${cli.redrive(group.fingerprint)}
      onClick=${() => setOpen('redrive')}
    >
      ${text.redrive.label}
    <//>
    <${ActionButton}
      kind=${kind}
      label=${named(text.discard.label)}
      title=${text.discard.title}
      cli=${cli.discard(group.fingerprint)}
      onClick=${() => setOpen('discard')}
    >
      ${text.discard.label}
    <//>
    ${open === 'sample'
      ? html`<${SampleDialog} group=${group} onClose=${close} onDone=${onDone} />`
      : open
        ? html`<${GroupDialog} verb=${open} group=${group} onClose=${close} onDone=${onDone} />`
        : null}
  </span>`;
}
