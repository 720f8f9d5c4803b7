// Command palette: jumps to a page, a job, a queue, or a message by its id.

import { html, useEffect, useState } from './html.js';
import { get } from './api.js';
import { to } from './route.js';
import { Dialog } from './ui.js';
import { shell } from '../texts.js';

const UUID = /^[0-9a-f]{8}-?[0-9a-f-]{4,}$/i;

export function Palette({ onClose }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [jobs, setJobs] = useState([]);
  const [queues, setQueues] = useState([]);
  useEffect(() => {
    get('/jobs', { limit: 1000 }).then(
      (found) => setJobs(found.items),
      () => {},
    );
    get('/queues').then(
      (found) => setQueues(found.items),
      () => {},
    );
  }, []);
  const targets = [
    ...Object.entries(shell.pages).map(([page, label]) => ({ label, kind: 'page', href: to([page]) })),
    ...jobs.map((job) => ({ label: job.name, kind: 'job', href: to(['jobs', job.name]) })),
    ...queues.map((queue) => ({ label: queue.name, kind: 'queue', href: to(['queues', queue.name]) })),
  ];
  const words = text.trim().toLowerCase();
  const found = targets.filter((target) => target.label.toLowerCase().includes(words)).slice(0, 12);
  if (UUID.test(words)) found.unshift({ label: words, kind: 'message', href: to(['messages', words]) });
  else if (words)
    found.push({ label: `messages: ${text.trim()}`, kind: 'search', href: to(['messages'], { q: text.trim() }) });
  const choose = (target) => {
    if (target) {
      location.hash = target.href;
      onClose();
    }
  };
  const pressed = (event) => {
    if (event.key === 'ArrowDown') {
      setAt(Math.min(at + 1, found.length - 1));
      event.preventDefault();
    }
    if (event.key === 'ArrowUp') {
      setAt(Math.max(at - 1, 0));
      event.preventDefault();
    }
    if (event.key === 'Enter') {
      event.preventDefault();
      choose(found[at]);
    }
  };
  return html`<${Dialog} title=${shell.palette.open} onClose=${onClose}>
    <div class="palette">
      <input
        type="search"
        autofocus
        placeholder=${shell.palette.placeholder}
        aria-label=${shell.palette.placeholder}
        value=${text}
        onInput=${(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown=${pressed}
      />
      <ul role="listbox" aria-label=${shell.palette.open}>
        ${found.map(
          (target, index) => html`<li role="option" aria-selected=${index === at} key=${target.href}>
            <a
              href=${target.href}
              onClick=${(event) => {
                event.preventDefault();
                choose(target);
              }}
            >
              <span>${target.label}</span>
              <span class="faint">${target.kind}</span>
            </a>
          </li>`,
        )}
        ${found.length === 0 ? html`<li class="faint">${shell.palette.none}</li>` : null}
      </ul>
    </div>
  <//>`;
}
