// One action for many: counts first, asks, then goes on in bounded steps with a progress bar that can be stopped.

import { html, useEffect, useRef, useState } from './html.js';
import { may, useSession } from './session.js';
import { count } from './number.js';
import { Cli, Dialog } from './ui.js';
import { shell } from '../texts.js';
import { sweep as text } from '../texts/sweep.js';

const TOGETHER = 4;

/** Repeats a bounded call until there is no more, or until a round did nothing. */
export async function* bounded(call) {
  for (;;) {
    const done = await call();
    yield done;
    if (!done.more) return;
    if (!done.applied) { yield { unreached: true }; return; }
  }
}

/** Repeats a bounded call behind where the last one ended, for what may still match afterwards. */
export async function* walked(call) {
  for (let after = null; ;) {
    const done = await call(after);
    yield done;
    if (!done.next) return;
    after = done.next;
  }
}

/** Calls for each of these, some at a time; what is refused is counted, what is broken is thrown. */
export async function* each(ids, call) {
  for (let at = 0; at < ids.length; at += TOGETHER) {
    const answers = await Promise.allSettled(ids.slice(at, at + TOGETHER).map(call));
    const broken = answers.find((answer) => answer.status === 'rejected' && ![404, 409, 422].includes(answer.reason.status));
    if (broken) throw broken.reason;
    const good = answers.filter((answer) => answer.status === 'fulfilled');
    const requested = good.filter((answer) => answer.value?.result === 'requested').length;
    yield { applied: good.length - requested, requested, refused: answers.length - good.length };
  }
}

const NONE = { applied: 0, requested: 0, refused: 0, unreached: false };
const add = (sum, part) => ({
  applied: sum.applied + (part.applied ?? 0), requested: sum.requested + (part.requested ?? 0), refused: sum.refused + (part.refused ?? 0), unreached: sum.unreached || Boolean(part.unreached),
});

/** Where it stands: counting, asking, going, over. */
function useSweep({ look, steps, onDone }) {
  const [found, setFound] = useState(null);
  const [done, setDone] = useState(NONE);
  const [stage, setStage] = useState('counting');
  const [error, setError] = useState(null);
  const stopped = useRef(false);
  useEffect(() => {
    look().then((answer) => { setFound(answer); setStage('asking'); }, (problem) => { setError(problem); setStage('over'); });
    return () => { stopped.current = true; };
  }, []);
  const run = async () => {
    setStage('going');
    try {
      for await (const part of steps()) { setDone((sum) => add(sum, part)); if (stopped.current) break; }
    } catch (problem) { setError(problem); }
    setStage('over');
    onDone?.();
  };
  return { found, done, stage, error, run, stop: () => { stopped.current = true; } };
}

function Going({ found, done }) {
  const total = Math.max(found.count, done.applied + done.requested + done.refused);
  const sum = done.applied + done.requested + done.refused;
  return html`<div class="sweep" role="status"><progress value=${sum} max=${total || 1} aria-label=${text.progress}></progress>
    <span class="num">${text.so(count(sum), count(total), found.more)}</span></div>`;
}

const Result = ({ done, verb }) => html`<p class="notice ${done.refused || done.unreached ? 'warn' : 'good'}" role="status">${
  [text.applied(count(done.applied), verb), done.requested ? text.requested(count(done.requested)) : null, done.refused ? text.refused(count(done.refused)) : null, done.unreached ? text.unreached : null].filter(Boolean).join(' ')}</p>`;

/**
 * The dialog. `look` answers {count, more}; `steps` is a generator of what each step came to; `ask` says in words
 * what is done to so many; `children` are fields of its own.
 */
export function Sweep({ title, ask, verb, button, kind = 'danger', role = 'operator', cli, ready = true, look, steps, onDone, onClose, children }) {
  const allowed = may(useSession(), role);
  const { found, done, stage, error, run, stop } = useSweep({ look, steps, onDone });
  const footer = html`
    ${stage === 'going' ? html`<button type="button" onClick=${stop}>${text.stop}</button>` : html`<button type="button" onClick=${onClose}>${shell.close}</button>`}
    ${stage === 'over' ? null : html`<button type="button" class=${kind} onClick=${run} disabled=${stage !== 'asking' || !found?.count || !ready || !allowed} aria-busy=${stage === 'going'} title=${allowed ? null : shell.denied(role)}>${button}${found ? ` (${count(found.count)}${found.more ? '+' : ''})` : ''}</button>`}`;
  return html`<${Dialog} title=${title} onClose=${() => { stop(); onClose(); }} footer=${footer}>
    ${allowed ? null : html`<p class="notice warn">${shell.denied(role)}</p>`}
    ${stage === 'counting' ? html`<p role="status">${text.counting}</p>` : null}
    ${stage === 'asking' && found.count === 0 ? html`<p>${text.nothing}</p>` : null}
    ${stage === 'asking' && found.count > 0 ? html`<p>${ask(`${found.more ? text.atLeast : ''}${count(found.count)}`, found.count)}</p>${children}` : null}
    ${stage === 'going' ? html`<${Going} found=${found} done=${done} />` : null}
    ${stage === 'over' && !error ? html`<${Result} done=${done} verb=${verb} />` : null}
    ${error ? html`<p class="notice bad" role="alert">${error.message}</p>` : null}
    ${cli && stage !== 'over' ? html`<${Cli} line=${cli} />` : null}
  <//>`;
}
