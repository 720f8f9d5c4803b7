// What to know about a range of the calendar: minutes in which many jobs start, and clock changes.

import { html } from '../../lib/html.js';
import { jobPage } from '../../lib/links.js';
import { Ago, clock } from '../../lib/time.js';
import { Badge, Card } from '../../lib/ui.js';
import { calendar as text } from '../../texts.js';

const MINUTE = 60_000;
const [PILES_SHOWN, JOBS_SHOWN] = [10, 6];

/** The jobs that start in a minute. */
const startersOf = (pile, runs) => { const from = new Date(pile.at).getTime(); return [...new Set(runs.filter((run) => { const at = new Date(run.at).getTime(); return at >= from && at < from + MINUTE; }).map((run) => run.job))]; };

function Pile({ pile, runs, zone }) {
  const names = startersOf(pile, runs);
  return html`<li><div class="what"><span class="num">${clock(pile.at, zone, { seconds: false })}</span>
    <span class="faint">${names.slice(0, JOBS_SHOWN).map((name, at) => html`${at ? ', ' : ''}<a key=${name} href=${jobPage(name)}>${name}</a>`)}${names.length > JOBS_SHOWN ? ` +${names.length - JOBS_SHOWN}` : ''}</span></div>
    <div class="value"><${Badge} tone="warn">${text.piles.count(pile.count)}<//></div></li>`;
}

export function Piles({ piles, runs, zone }) {
  const worst = [...piles].sort((one, other) => other.count - one.count).slice(0, PILES_SHOWN);
  return html`<${Card} title=${text.piles.title} note=${piles.length ? text.piles.about : null} flush>
    ${worst.length === 0 ? html`<p class="quiet-line">${text.piles.none}</p>` : html`<ul class="rows">${worst.map((pile) => html`<${Pile} key=${pile.at} pile=${pile} runs=${runs} zone=${zone} />`)}</ul>`}<//>`;
}

export const Changes = ({ changes }) => html`<${Card} title=${text.changes.title} flush>
  ${changes.length === 0 ? html`<p class="quiet-line">${text.changes.none}</p>` : html`<ul class="rows">${changes.map((change) => html`<li key=${change.zone + change.at}><div class="what"><span>${change.zone}</span> <span class="faint">${change.note}</span></div>
    <div class="value"><span class="num">${clock(change.at, change.zone, { seconds: false })}</span> <${Ago} at=${change.at} /></div></li>`)}</ul>`}<//>`;
