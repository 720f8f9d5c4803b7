// What can be done to a job: the buttons of its page, and the dialogs they open. The open dialog is in the address.

import { html } from '../../lib/html.js';
import { refine } from '../../lib/route.js';
import { does } from '../../lib/job.js';
import { jobs as cli } from '../../lib/lines.js';
import { Menu } from '../../lib/menu.js';
import { Act, useToast } from '../../lib/ui.js';
import { Backfill } from './backfill.js';
import { Edit } from './edit.js';
import { Pause } from './pause.js';
import { Cursor, Remove, Skip } from './steer.js';
import { Trigger } from './trigger.js';
import { job as text } from '../../texts.js';

const DIALOGS = { trigger: Trigger, edit: Edit, backfill: Backfill, skip: Skip, cursor: Cursor, delete: Remove };
const open = (what) => () => refine({ do: what }, {});

/** The dialog that the address names. */
export function Doing({ what, job, nominal, onClose, onDone }) {
  if (what === 'pause') return html`<${Pause} name=${job.name} onClose=${onClose} onDone=${onDone} />`;
  const View = DIALOGS[what];
  return View ? html`<${View} job=${job} nominal=${nominal} onClose=${onClose} onDone=${onDone} />` : null;
}

function More({ job }) {
  const { act } = text;
  const mayDelete = job.source === 'api';
  return html`<${Menu} label=${act.more}>
    <${Act} kind="quiet" disabled=${!job.next_at} cli=${cli.skip(job.name)} onClick=${open('skip')}>${act.skip}<//>
    <${Act} kind="quiet" disabled=${job.phase === 'retired'} cli=${cli.cursor(job.name)} onClick=${open('cursor')}>${act.cursor}<//>
    <${Act} kind="quiet" cli=${cli.backfill(job.name)} onClick=${open('backfill')}>${act.backfill}<//>
    <${Act} role="admin" kind="quiet" disabled=${!mayDelete} title=${mayDelete ? null : act.fileOnly(text.facts.sources[job.source])} cli=${cli.remove(job.name)} onClick=${open('delete')}>${act.remove}<//>
  <//>`;
}

export function Actions({ job, reload }) {
  const toast = useToast();
  const { act } = text;
  const resume = async () => { await does.resume(job.name); toast({ text: text.resumed(job.name) }); reload(); };
  const isRetired = job.phase === 'retired';
  return html`
    <${Act} kind="primary" disabled=${isRetired} title=${isRetired ? act.retired : null} cli=${cli.trigger(job.name)} onClick=${open('trigger')}>${act.trigger}<//>
    ${job.phase === 'paused' ? html`<${Act} cli=${cli.resume(job.name)} onClick=${resume}>${act.resume}<//>` : html`<${Act} disabled=${isRetired} cli=${cli.pause(job.name)} onClick=${open('pause')}>${act.pause}<//>`}
    <${Act} role="admin" disabled=${isRetired} cli=${cli.edit(job.name)} onClick=${open('edit')}>${act.edit}<//>
    <${More} job=${job} />`;
}
