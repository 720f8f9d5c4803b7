// Bulk action: counts the messages, asks for confirmation, then works in bounded steps with a progress bar and a stop
// button.

import { html, useEffect, useRef, useState } from './html.js';
import { hasRole, useSession } from './session.js';
import { count } from './number.js';
import { CliCommand, Dialog } from './ui.js';
import { shell } from '../texts.js';
import { bulkAction as text } from '../texts/bulk_action.js';

const TOGETHER = 4;

/** Repeats a call that handles a bounded number until no more are left, or until a call changed nothing. */
export async function* untilDone(call) {
  for (;;) {
    const done = await call();
    yield done;
    if (!done.more) return;
    if (!done.applied) {
      yield { unreached: true };
      return;
    }
  }
}

/** Repeats a call page by page, for messages that may still match afterwards. */
export async function* byPages(call) {
  for (let after = null; ;) {
    const done = await call(after);
    yield done;
    if (!done.next) return;
    after = done.next;
  }
}

/** Calls once for each id, some at a time; refused calls are counted, other errors are thrown. */
export async function* forEachId(ids, call) {
  for (let at = 0; at < ids.length; at += TOGETHER) {
    const responses = await Promise.allSettled(ids.slice(at, at + TOGETHER).map(call));
    const broken = responses.find(
      (response) => response.status === 'rejected' && ![404, 409, 422].includes(response.reason.status),
    );
    if (broken) throw broken.reason;
    const good = responses.filter((response) => response.status === 'fulfilled');
    const requested = good.filter((response) => response.value?.result === 'requested').length;
    yield { applied: good.length - requested, requested, refused: responses.length - good.length };
  }
}

const NONE = { applied: 0, requested: 0, refused: 0, unreached: false };
const add = (sum, part) => ({
  applied: sum.applied + (part.applied ?? 0),
  requested: sum.requested + (part.requested ?? 0),
  refused: sum.refused + (part.refused ?? 0),
  unreached: sum.unreached || Boolean(part.unreached),
});

/** Stages: counting, confirming, running, finished. */
function useBulkAction({ loadCount, steps, onDone }) {
  const [found, setFound] = useState(null);
  const [done, setDone] = useState(NONE);
  const [stage, setStage] = useState('counting');
  const [error, setError] = useState(null);
  const stopped = useRef(false);
  useEffect(() => {
    loadCount().then(
      (response) => {
        setFound(response);
        setStage('confirming');
      },
      (problem) => {
        setError(problem);
        setStage('finished');
      },
    );
    return () => {
      stopped.current = true;
    };
  }, []);
  const run = async () => {
    setStage('running');
    try {
      for await (const part of steps()) {
        setDone((sum) => add(sum, part));
        if (stopped.current) break;
      }
    } catch (problem) {
      setError(problem);
    }
    setStage('finished');
    onDone?.();
  };
  return {
    found,
    done,
    stage,
    error,
    run,
    stop: () => {
      stopped.current = true;
    },
  };
}

function RunningProgress({ found, done }) {
  const total = Math.max(found.count, done.applied + done.requested + done.refused);
  const sum = done.applied + done.requested + done.refused;
  return html`<div class="bulk-progress" role="status">
    <progress value=${sum} max=${total || 1} aria-label=${text.progress}></progress>
    <span class="num">${text.position(count(sum), count(total), found.more)}</span>
  </div>`;
}

const Result = ({ done, verb }) =>
  html`<p class="notice ${done.refused || done.unreached ? 'warn' : 'good'}" role="status">
    ${[
      text.applied(count(done.applied), verb),
      done.requested ? text.requested(count(done.requested)) : null,
      done.refused ? text.refused(count(done.refused)) : null,
      done.unreached ? text.unreached : null,
    ]
      .filter(Boolean)
      .join(' ')}
  </p>`;

/**
 * The dialog. `loadCount` returns {count, more}; `steps` is a generator of the result of each step; `ask` returns the
 * question with the count; `children` are further fields.
 */
export function BulkAction({
  title,
  ask,
  verb,
  button,
  kind = 'danger',
  role = 'operator',
  cli,
  ready = true,
  loadCount,
  steps,
  onDone,
  onClose,
  children,
}) {
  const allowed = hasRole(useSession(), role);
  const { found, done, stage, error, run, stop } = useBulkAction({ loadCount, steps, onDone });
  const footer = html`
    ${stage === 'running'
      ? html`<button type="button" onClick=${stop}>${text.stop}</button>`
      : html`<button type="button" onClick=${onClose}>${shell.close}</button>`}
    ${stage === 'finished'
      ? null
      : html`<button
          type="button"
          class=${kind}
          onClick=${run}
          disabled=${stage !== 'confirming' || !found?.count || !ready || !allowed}
          aria-busy=${stage === 'running'}
          title=${allowed ? null : shell.denied(role)}
        >
          ${button}
          ${found ? ` (${count(found.count)}${found.more ? '+' : ''})` : ''}
        </button>`}
  `;
  return html`<${Dialog}
    title=${title}
    onClose=${() => {
      stop();
      onClose();
    }}
    footer=${footer}
  >
    ${allowed ? null : html`<p class="notice warn">${shell.denied(role)}</p>`}
    ${stage === 'counting' ? html`<p role="status">${text.counting}</p>` : null}
    ${stage === 'confirming' && found.count === 0 ? html`<p>${text.nothing}</p>` : null}
    ${stage === 'confirming' && found.count > 0
      ? html`<p>${ask(`${found.more ? text.atLeast : ''}${count(found.count)}`, found.count)}</p>${children}`
      : null}
    ${stage === 'running' ? html`<${RunningProgress} found=${found} done=${done} />` : null}
    ${stage === 'finished' && !error ? html`<${Result} done=${done} verb=${verb} />` : null}
    ${error ? html`<p class="notice bad" role="alert">${error.message}</p>` : null}
    ${cli && stage !== 'finished' ? html`<${CliCommand} command=${cli} />` : null}
  <//>`;
}
