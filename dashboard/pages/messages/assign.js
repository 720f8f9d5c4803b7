// Where messages wait and how urgent they are, instead of how it is.

import { html, useEffect, useState } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { Field } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.assign;
const PRIORITIES = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/** How it is; nothing for many. A line of the engine's own is not for people, and stays. */
export const ofMessage = (of) => ({ queue: !of || of.queue.startsWith('~') ? '' : of.queue, priority: of ? String(of.priority) : '' });

/** What the API is asked for; null when nothing is to change. */
export function assignmentOf({ queue, priority }) {
  const to = { ...(queue.trim() ? { queue: queue.trim() } : {}), ...(priority === '' ? {} : { priority: Number(priority) }) };
  return Object.keys(to).length === 0 ? null : to;
}

/** The same as options of a line for the shell. */
export const lineOf = (value) => { const found = assignmentOf(value); return { to: found?.queue, priority: found?.priority }; };

/** The names of the queues there are; lines of the engine's own are not for people. */
function useQueues() {
  const [names, setNames] = useState([]);
  useEffect(() => {
    let open = true;
    get('/queues').then((list) => { if (open) setNames(list.items.map((queue) => queue.name).filter((name) => !name.startsWith('~'))); }, () => { /* it can be typed */ });
    return () => { open = false; };
  }, []);
  return names;
}

export function AssignFields({ value, onChange, wrong = {} }) {
  const names = useQueues();
  const set = (name) => (event) => onChange({ ...value, [name]: event.target.value });
  return html`<${Field} label=${text.queue} hint=${text.queueHint} error=${wrong.queue}><input list="queue-names" maxlength="200" value=${value.queue} onInput=${set('queue')} /><//>
    <datalist id="queue-names">${names.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
    <${Field} label=${text.priority} hint=${text.priorityHint} error=${wrong.priority}><select value=${value.priority} onChange=${set('priority')}>
      <option value="">${text.unchanged}</option>${PRIORITIES.map((level) => html`<option key=${level} value=${String(level)}>${text.levels[level] ?? String(level)}</option>`)}</select><//>`;
}
