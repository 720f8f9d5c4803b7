// Run now dialog: triggers a job once, optionally with another payload.

import { html, useState } from '../../lib/html.js';
import { FormDialog } from '../../lib/form.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { Field, useToast } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.trigger;

/** Parses JSON; returns the value, or the problem. */
export function json(input) {
  if (input.trim() === '') return {};
  try {
    return { value: JSON.parse(input) };
  } catch (error) {
    return { wrong: `${text.wrong}: ${error.message}` };
  }
}

export function Trigger({ job, onClose, onDone }) {
  const toast = useToast();
  const [ignore, setIgnore] = useState(false);
  const [payload, setPayload] = useState('');
  const read = json(payload);
  const request = {
    ...(ignore ? { ignore_overlap: true } : {}),
    ...(read.value === undefined ? {} : { payload: read.value }),
  };
  const run = async () => {
    await jobActions.trigger(job.name, request);
    toast({ text: text.done });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title(job.name)}
    about=${text.about}
    button=${text.button}
    ready=${!read.wrong}
    cli=${cli.trigger(job.name, request)}
    onDo=${run}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <label class="tick">
        <input type="checkbox" checked=${ignore} onChange=${() => setIgnore(!ignore)} /> ${text.ignore}
      </label>
      <${Field} label=${text.payload} hint=${text.payloadHint} error=${read.wrong ?? wrong.payload}>
        <textarea
          rows="4"
          placeholder=${job.payload === null ? '' : JSON.stringify(job.payload)}
          value=${payload}
          onInput=${(event) => setPayload(event.target.value)}
        ></textarea>
      <//>
    `}
  <//>`;
}
