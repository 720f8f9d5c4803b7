// Backfill dialog: runs past occurrences, after a preview of what would run.

import { html, useState } from '../../lib/html.js';
import { FormDialog, inputOf, instantOf } from '../../lib/form.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { clock } from '../../lib/time.js';
import { count } from '../../lib/number.js';
import { Field, useToast } from '../../lib/ui.js';
import { job as texts } from '../../texts.js';

const text = texts.backfill;
const DAY = 86_400_000;
const SHOWN = 12;

function Preview({ found }) {
  if (found.nominals.length === 0)
    return html`<p class="notice">${text.none} ${found.present ? text.present(found.present) : ''}</p>`;
  return html`<div class="notice busy" role="status">
    <p>
      ${text.found(found.nominals.length)} ${found.present ? text.present(found.present) : ''} ${found.duplicates
        ? text.duplicates(found.duplicates)
        : ''} ${found.more ? text.more : ''}
    </p>
    <ol class="times">
      ${found.nominals.slice(0, SHOWN).map((nominal) => html`<li key=${nominal} class="num">${clock(nominal)}</li>`)}
    </ol>
    ${found.nominals.length > SHOWN
      ? html`<span class="faint">${texts.misfire.and(found.nominals.length - SHOWN)}</span>`
      : null}
  </div>`;
}

const Select = ({ label, values, current, onChoose }) =>
  html`<${Field} label=${label}>
    <select value=${current} onChange=${(event) => onChoose(event.target.value)}>
      ${Object.entries(values).map(([id, shown]) => html`<option key=${id} value=${id}>${shown}</option>`)}
    </select>
  <//>`;

export function Backfill({ job, onClose, onDone }) {
  const toast = useToast();
  const [fields, setFields] = useState(() => ({
    from: inputOf(Date.now() - DAY),
    to: inputOf(Date.now()),
    which: 'missing',
    order: 'oldest',
    max: '100',
  }));
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const set = (name) => (value) => {
    setFields({ ...fields, [name]: value });
    setFound(null);
  };
  const typed = (name) => (event) => set(name)(event.target.value);
  const request = (isDry) => ({
    from: instantOf(fields.from),
    to: instantOf(fields.to),
    which: fields.which,
    order: fields.order,
    max: Number(fields.max),
    dry_run: isDry,
  });
  const preview = async () => {
    setProblem(null);
    try {
      setFound(await jobActions.backfill(job.name, request(true)));
    } catch (error) {
      setProblem(error.message);
    }
  };
  const run = async () => {
    const done = await jobActions.backfill(job.name, request(false));
    toast({ text: text.done(count(done.stored)) });
    onDone();
  };
  const ready = found !== null && found.nominals.length > 0;
  return html`<${FormDialog}
    wide
    title=${text.title(job.name)}
    about=${text.about}
    button=${text.button(found ? found.nominals.length : '…')}
    ready=${ready}
    cli=${cli.backfill(job.name, request(!ready))}
    onDo=${run}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <div class="columns">
        <${Field} label=${text.from} error=${wrong.from}>
          <input type="datetime-local" value=${fields.from} onInput=${typed('from')} />
        <//>
        <${Field} label=${text.to} error=${wrong.to}>
          <input type="datetime-local" value=${fields.to} onInput=${typed('to')} />
        <//>
        <${Select} label=${text.which} values=${text.selections} current=${fields.which} onChoose=${set('which')} />
        <${Select} label=${text.order} values=${text.orders} current=${fields.order} onChoose=${set('order')} />
        <${Field} label=${text.max} error=${wrong.max}>
          <input type="number" min="1" max="10000" value=${fields.max} onInput=${typed('max')} />
        <//>
      </div>
      <p><button type="button" onClick=${preview}>${text.preview}</button></p>
      ${problem ? html`<p class="notice bad" role="alert">${problem}</p>` : null}
      ${found ? html`<${Preview} found=${found} />` : null}
    `}
  <//>`;
}
