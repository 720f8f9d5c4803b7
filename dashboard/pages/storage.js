// The storage: what is wrong with it first, then its facts and how much it holds.

import { html, useState } from '../lib/html.js';
import { get } from '../lib/api.js';
import { system } from '../lib/lines.js';
import { useLoad } from '../lib/live.js';
import { messagesWith } from '../lib/links.js';
import { short } from '../lib/number.js';
import { Ago } from '../lib/time.js';
import { Act, Card, Cli, Facts, Head, Loaded } from '../lib/ui.js';
import { storage as text } from '../texts.js';

const ORDER = ['pending', 'running', 'done', 'dead', 'cancelled'];

/** What was looked at, and when: a finding of a check stays until the next one. */
const Looked = ({ checked }) => html`<p class="faint">${checked ? html`${text.checked} <${Ago} at=${checked.at} />` : text.glance}</p>`;

const Findings = ({ findings, checked }) => (findings.length === 0
  ? html`<section class="because good"><span class="sign" aria-hidden="true">✓</span><div><h2>${text.well}</h2><${Looked} checked=${checked} /></div></section>`
  : html`<section class="because warn"><span class="sign" aria-hidden="true">!</span><div><h2>${text.findings}</h2><ul>${findings.map((finding) => html`<li key=${finding}>${finding}</li>`)}</ul><${Looked} checked=${checked} /><p class="faint">${text.doctor}</p><${Cli} line=${system.doctor()} /></div></section>`);

const Counts = ({ counts }) => html`<div class="tiles">${ORDER.filter((state) => counts[state] !== undefined).map((state) => html`<a key=${state} class="tile ${state === 'dead' && counts.dead > 0 ? 'bad' : ''}" href=${messagesWith({ state })}><span class="label">${text.states[state]}</span><span class="value">${short(counts[state])}</span></a>`)}</div>`;

/** What the page asks for by itself takes a moment; all that is in the storage is looked at when somebody asks. */
export function Storage() {
  const [whole, setWhole] = useState(null);
  const loaded = useLoad((signal) => get('/storage', {}, { signal }), 'storage', { every: 15_000, poll: true });
  const check = async () => setWhole({ ...(await get('/storage', { whole: true })), at: new Date().toISOString() });
  return html`<${Head} title=${text.title} about=${text.about}><${Act} cli=${system.doctor()} onClick=${check}>${text.check}<//><//>
    ${loaded.data === null ? html`<${Card}><${Loaded} of=${loaded}>${() => null}<//><//>` : html`<${Loaded} of=${loaded}>${(data) => html`<${Findings} findings=${[...new Set([...data.findings, ...(whole?.findings ?? [])])]} checked=${whole} /><${Counts} counts=${data.counts} />
      <${Card} title=${text.facts} note=${data.kind}><${Facts} rows=${[...(whole?.facts.filter(([name]) => name === 'sound') ?? []), ...data.facts]} /><//>`}<//>`}`;
}
