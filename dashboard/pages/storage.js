// Storage page: findings first, then facts and the number of messages.

import { html, useState } from '../lib/html.js';
import { get } from '../lib/api.js';
import { system } from '../lib/cli_commands.js';
import { useLoad } from '../lib/live.js';
import { messagesWith } from '../lib/links.js';
import { short } from '../lib/number.js';
import { Ago } from '../lib/time.js';
import { ActionButton, Card, CliCommand, Facts, Head, Loaded } from '../lib/ui.js';
import { storage as text } from '../texts.js';

const ORDER = ['pending', 'running', 'done', 'dead', 'cancelled'];

/** Depth and time of the latest check; its findings stay until the next check. */
const CheckedAt = ({ checked }) =>
  html`<p class="faint">${checked ? html`${text.checked} <${Ago} at=${checked.at} />` : text.quickCheckOnly}</p>`;

const Findings = ({ findings, checked }) =>
  findings.length === 0
    ? html`<section class="reason-box good">
        <span class="sign" aria-hidden="true">✓</span>
        <div><h2>${text.noFindings}</h2><${CheckedAt} checked=${checked} /></div>
      </section>`
    : html`<section class="reason-box warn">
        <span class="sign" aria-hidden="true">!</span>
        <div>
          <h2>${text.findings}</h2>
          <ul>${findings.map((finding) => html`<li key=${finding}>${finding}</li>`)}</ul>
          <${CheckedAt} checked=${checked} />
          <p class="faint">${text.doctor}</p>
          <${CliCommand} command=${system.doctor()} />
        </div>
      </section>`;

const Counts = ({ counts }) =>
  html`<div class="tiles">
    ${ORDER.filter((state) => counts[state] !== undefined).map(
      (state) =>
        html`<a
          key=${state}
          class="tile ${state === 'dead' && counts.dead > 0 ? 'bad' : ''}"
          href=${messagesWith({ state })}
        >
          <span class="label">${text.states[state]}</span>
          <span class="value">${short(counts[state])}</span>
        </a>`,
    )}
  </div>`;

/** Facts that only the full check has. */
const added = (facts, known) => facts.filter(([name]) => !known.some(([one]) => one === name));

/** The page loads a quick check by itself; the full check runs on request. */
export function Storage() {
  const [whole, setWhole] = useState(null);
  const loaded = useLoad((signal) => get('/storage', {}, { signal }), 'storage', { every: 15_000, poll: true });
  const check = async () => setWhole({ ...(await get('/storage', { whole: true })), at: new Date().toISOString() });
  return html`
    <${Head} title=${text.title} about=${text.about}>
      <${ActionButton} cli=${system.doctor()} onClick=${check}>${text.check}<//>
    <//>
    ${loaded.data === null
      ? html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>`
      : html`<${Loaded} of=${loaded}>
          ${(data) => html`
            <${Findings} findings=${[...new Set([...data.findings, ...(whole?.findings ?? [])])]} checked=${whole} />
            <${Counts} counts=${data.counts} />
            <${Card} title=${text.facts} note=${data.kind}>
              <${Facts} rows=${[...added(whole?.facts ?? [], data.facts), ...data.facts]} />
            <//>
          `}
        <//>`}
  `;
}
