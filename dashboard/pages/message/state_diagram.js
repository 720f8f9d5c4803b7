// State diagram of a message: its past states, its current state and the possible next ones.

import { html } from '../../lib/html.js';
import { message } from '../../texts.js';

const text = message.states;
const BOX = { width: 104, height: 30 };
const POSITIONS = {
  scheduled: [4, 12],
  ready: [168, 12],
  running: [332, 12],
  done: [496, 12],
  retrying: [168, 78],
  dead: [496, 78],
  cancelled: [332, 78],
};
/** Transitions: from, to, and the path of the line. */
const TRANSITIONS = [
  ['scheduled', 'ready', 'M108 27H160'],
  ['ready', 'running', 'M272 27H324'],
  ['running', 'done', 'M436 27H488'],
  ['running', 'retrying', 'M346 42V54H236V70'],
  ['retrying', 'ready', 'M204 78V50'],
  ['running', 'dead', 'M418 42V54H548V70'],
  ['running', 'cancelled', 'M384 42V70'],
];

/** Returns the past states, as far as they can be derived. */
function visited({ phase, state, attempt, executions, due_at: due, created_at: made, source }) {
  const past = new Set([phase]);
  if (source === 'scheduled' || new Date(due) - new Date(made) > 1_000) past.add('scheduled');
  if (attempt > 0 || state !== 'pending') past.add('ready');
  if (attempt > 0 || executions.length > 0) past.add('running');
  if (executions.length > 1 || (executions.length > 0 && state === 'running') || phase === 'retrying')
    past.add('retrying');
  return past;
}

function Node({ name, here, past }) {
  const [x, y] = POSITIONS[name];
  return html`<g class="node ${here ? 'here' : past ? 'past' : ''} ${name}">
    <rect x=${x} y=${y} width=${BOX.width} height=${BOX.height} rx="15" />
    <text x=${x + BOX.width / 2} y=${y + 19}>${text.names[name]}</text>
  </g>`;
}

export function StateDiagram({ of }) {
  const past = visited(of);
  const now = of.phase === 'stale' ? 'running' : of.phase;
  return html`<svg
    class="states"
    viewBox="0 0 604 120"
    role="img"
    aria-label=${`${text.title}. ${text.now(text.names[now] ?? now)}`}
  >
    <defs>
      <marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path d="M0 0L8 4L0 8z" />
      </marker>
    </defs>
    ${TRANSITIONS.map(
      ([from, to, d]) =>
        html`<path
          key=${d}
          class="transition ${past.has(from) && past.has(to) ? 'past' : ''}"
          d=${d}
          marker-end="url(#tip)"
        />`,
    )}
    ${Object.keys(POSITIONS).map(
      (name) => html`<${Node} key=${name} name=${name} here=${name === now} past=${past.has(name)} />`,
    )}
  </svg>`;
}
