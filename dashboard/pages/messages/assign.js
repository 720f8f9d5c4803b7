// Queue and priority fields.

import { html, useEffect, useState } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { Field } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.assign;
const PRIORITIES = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0];

/** Initial value; empty for several messages. Internal queues of the engine are not shown, and stay. */
export const initialAssignment = (of) => ({
  queue: !of || of.queue.startsWith('~') ? '' : of.queue,
  priority: of ? String(of.priority) : '',
});

/** Returns the body of the API request; null when nothing changes. */
export function assignmentOf({ queue, priority }) {
  const to = {
    ...(queue.trim() ? { queue: queue.trim() } : {}),
    ...(priority === '' ? {} : { priority: Number(priority) }),
  };
  return Object.keys(to).length === 0 ? null : to;
}

/** Returns the options of the CLI command. */
export const cliOptions = (value) => {
  const found = assignmentOf(value);
  return { to: found?.queue, priority: found?.priority };
};

/** Loads the names of queues, without internal queues of the engine. */
function useQueues() {
  const [names, setNames] = useState([]);
  useEffect(() => {
    let open = true;
    get('/queues').then(
      (list) => {
        if (open) setNames(list.items.map((queue) => queue.name).filter((name) => !name.startsWith('~')));
      },
      () => {
        /* the name can be typed */
      },
    );
    return () => {
      open = false;
    };
  }, []);
  return names;
}

export function AssignFields({ value, onChange, wrong = {} }) {
  const names = useQueues();
  const set = (name) => (event) => onChange({ ...value, [name]: event.target.value });
  return html`
    <${Field} label=${text.queue} hint=${text.queueHint} error=${wrong.queue}>
      <input list="queue-names" maxlength="200" value=${value.queue} onInput=${set('queue')} />
    <//>
    <datalist id="queue-names">${names.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
    <${Field} label=${text.priority} hint=${text.priorityHint} error=${wrong.priority}>
      <select value=${value.priority} onChange=${set('priority')}>
        <option value="">${text.unchanged}</option>
        ${PRIORITIES.map(
          (level) => html`<option key=${level} value=${String(level)}>${text.levels[level] ?? String(level)}</option>`,
        )}
      </select>
    <//>
  `;
}
