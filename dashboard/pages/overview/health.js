// The strip that says whether everything is well; each reason leads to where it can be looked into.

import { html } from '../../lib/html.js';
import { to } from '../../lib/route.js';
import { messagesWith } from '../../lib/links.js';
import { length } from '../../lib/time.js';
import { overview as text } from '../../texts.js';

const TONE = { healthy: 'good', degraded: 'warn', unhealthy: 'bad' };
const ICON = { healthy: '✓', degraded: '!', unhealthy: '✕' };

/** Which page explains a reason; the first word that occurs decides. */
const PLACES = [
  [/dead letter/i, to(['dead'])], [/\blate\b|schedul/i, to(['jobs'], { sort: 'next' })], [/stale|stuck|lease/i, messagesWith({ phase: 'stale' })], [/queue|depth/i, to(['queues'])],
  [/storage|database|disk/i, to(['storage'])], [/circuit|transport|broker|relay/i, to(['topics'])], [/worker|process/i, to(['workers'])], [/job/i, to(['jobs'])],
];
const placeOf = (reason) => PLACES.find(([pattern]) => pattern.test(reason))?.[1] ?? to(['workers']);

export function Health({ data }) {
  const { health } = data;
  const word = health.condition;
  const facts = [
    health.last_tick_age_ms === undefined || health.last_tick_age_ms === null ? null : `${text.facts.tick} ${length(health.last_tick_age_ms)} ago`,
    health.storage_latency_ms === undefined || health.storage_latency_ms === null ? null : `${text.facts.storage} ${length(health.storage_latency_ms)}`,
    health.stale_count > 0 ? text.facts.stale(health.stale_count) : null,
  ].filter(Boolean);
  return html`<section class="health ${TONE[word] ?? 'warn'}" aria-label=${text.condition[word] ?? word}>
    <span class="sign" aria-hidden="true">${ICON[word] ?? '!'}</span>
    <div><h2>${text.condition[word] ?? word}</h2>
      ${health.reasons.length === 0 ? html`<p>${text.fine}</p>` : html`<ul>${health.reasons.map((reason) => html`<li key=${reason}><a href=${placeOf(reason)}>${reason}</a></li>`)}</ul>`}</div>
    <p class="facts-line">${facts.join(' · ')}</p>
  </section>`;
}
