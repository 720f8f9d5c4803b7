// Job actions: the buttons of the page and the dialogs they open. The address names the open dialog.

import { html } from '../../lib/html.js';
import { refine } from '../../lib/route.js';
import { jobActions } from '../../lib/job.js';
import { jobs as cli } from '../../lib/cli_commands.js';
import { Menu } from '../../lib/menu.js';
import { ActionButton, useToast } from '../../lib/ui.js';
import { Backfill } from './backfill.js';
import { Edit } from './edit.js';
import { Pause } from './pause.js';
import { Cursor, Remove, Skip } from './control_dialogs.js';
import { Trigger } from './trigger.js';
import { job as text } from '../../texts.js';

const DIALOGS = { trigger: Trigger, edit: Edit, backfill: Backfill, skip: Skip, cursor: Cursor, delete: Remove };
const openDialog = (what) => () => refine({ do: what }, {});

/** The dialog that the address names. */
export function ActionDialog({ what, job, nominal, onClose, onDone }) {
  if (what === 'pause') return html`<${Pause} name=${job.name} onClose=${onClose} onDone=${onDone} />`;
  const View = DIALOGS[what];
  return View ? html`<${View} job=${job} nominal=${nominal} onClose=${onClose} onDone=${onDone} />` : null;
}

function More({ job }) {
  const { act } = text;
  const mayDelete = job.source === 'api';
  return html`<${Menu} label=${act.more}>
    <${ActionButton} kind="quiet" disabled=${!job.next_at} cli=${cli.skip(job.name)} onClick=${openDialog('skip')}>
      ${act.skip}
    <//>
    <${ActionButton}
      kind="quiet"
      disabled=${job.phase === 'retired'}
      cli=${cli.cursor(job.name)}
      onClick=${openDialog('cursor')}
    >
      ${act.cursor}
    <//>
    <${ActionButton} kind="quiet" cli=${cli.backfill(job.name)} onClick=${openDialog('backfill')}>${act.backfill}<//>
    <${ActionButton}
      role="admin"
      kind="quiet"
      disabled=${!mayDelete}
      title=${mayDelete ? null : act.fileOnly(text.facts.sources[job.source])}
      cli=${cli.remove(job.name)}
      onClick=${openDialog('delete')}
    >
      ${act.remove}
    <//>
  <//>`;
}

export function Actions({ job, reload }) {
  const toast = useToast();
  const { act } = text;
  const resume = async () => {
    await jobActions.resume(job.name);
    toast({ text: text.resumed(job.name) });
    reload();
  };
  const isRetired = job.phase === 'retired';
  return html`
    <${ActionButton}
      kind="primary"
      disabled=${isRetired}
      title=${isRetired ? act.retired : null}
      cli=${cli.trigger(job.name)}
      onClick=${openDialog('trigger')}
    >
      ${act.trigger}
    <//>
    ${job.phase === 'paused'
      ? html`<${ActionButton} cli=${cli.resume(job.name)} onClick=${resume}>${act.resume}<//>`
      : html`<${ActionButton} disabled=${isRetired} cli=${cli.pause(job.name)} onClick=${openDialog('pause')}>
          ${act.pause}
        <//>`}
    <${ActionButton} role="admin" disabled=${isRetired} cli=${cli.edit(job.name)} onClick=${openDialog('edit')}>
      ${act.edit}
    <//>
    <${More} job=${job} />
  `;
}
