// Health strip. It polls by itself, so that it never shows more than the latest response: red when unhealthy, grey with
// the age of the response when that is older than five seconds.

import { html } from '../../lib/html.js';
import { get } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { to } from '../../lib/route.js';
import { jobPage, messagesWith, queuePage } from '../../lib/links.js';
import { hour, duration, useTick } from '../../lib/time.js';
import { STALE_AFTER, healthOf } from '../../lib/health.js';
import { overview as text } from '../../texts.js';

const TONE = { healthy: 'good', degraded: 'warn', unhealthy: 'bad', unknown: 'mute' };
const ICON = { healthy: '✓', degraded: '!', unhealthy: '✕', unknown: '?' };

/** Pages that explain a problem of the process; the first matching word decides. */
const PLACES = [
  [/\blate\b|schedul/i, to(['jobs'], { sort: 'next' })],
  [/stale|stuck|lease|owner/i, messagesWith({ phase: 'stale' })],
  [/storage|database|disk/i, to(['storage'])],
  [/circuit|transport|broker|relay/i, to(['topics'])],
  [/job/i, to(['jobs'])],
];
const QUEUES = ['queue_without_worker', 'queue_paused', 'queue_late'];

/** Link for an alert: its own page when it is about one thing. */
function alertLink({ kind, text: words, count, subjects }) {
  const one = count === 1 ? subjects[0] : null;
  if (kind === 'job_failing') return one ? jobPage(one) : to(['jobs'], { sort: 'last' });
  if (QUEUES.includes(kind)) return one ? queuePage(one) : to(['queues']);
  if (kind === 'dead_letters') return to(['dead']);
  if (kind === 'webhook_failing') return to(['settings'], { tab: 'webhooks' });
  if (kind === 'configuration_refused') return to(['settings'], { tab: 'configuration' });
  return PLACES.find(([pattern]) => pattern.test(words))?.[1] ?? to(['workers']);
}

/** Age of the latest response in milliseconds; it ticks. */
function useAge(at) {
  useTick();
  return at ? Date.now() - at : null;
}

function Why({ word, loaded, age }) {
  if (word === 'unknown')
    return html`<p>
      ${loaded.loadedAt ? text.unknown(hour(loaded.loadedAt), duration(Math.floor(age / 1_000) * 1_000)) : text.never}
    </p>`;
  if (loaded.error) return html`<p>${text.failed}: ${loaded.error.message}</p>`;
  const { alerts } = loaded.data;
  if (alerts.length === 0) return html`<p>${text.fine}</p>`;
  return html`<ul>
    ${alerts.slice(1).map((alert) => html`<li key=${alert.kind + alert.text}><${Alert} alert=${alert} /></li>`)}
  </ul>`;
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);
const Alert = ({ alert }) => html`<a href=${alertLink(alert)} title=${alert.fix}>${sentence(alert.text)}</a>`;

/** The most severe alert, or a general sentence. */
function Headline({ word, loaded }) {
  const worst = word === 'unknown' || loaded.error ? null : loaded.data.alerts[0];
  return html`<h2>${worst ? html`<${Alert} alert=${worst} />` : (text.condition[word] ?? word)}</h2>`;
}

/** Facts about the process, while they are current. */
function Facts({ health }) {
  const facts = [
    health.last_tick_age_ms === null ? null : `${text.facts.tick} ${duration(health.last_tick_age_ms)} ago`,
    health.storage_latency_ms === null ? null : `${text.facts.storage} ${duration(health.storage_latency_ms)}`,
    health.stale_count > 0 ? text.facts.stale(health.stale_count) : null,
  ].filter(Boolean);
  return html`<p class="facts-line">${facts.join(' · ')}</p>`;
}

/** The health strip. */
export function Health() {
  const loaded = useLoad(
    (signal) => get('/health', {}, { signal: AbortSignal.any([signal, AbortSignal.timeout(STALE_AFTER)]) }),
    'health',
    { poll: true, every: 1_000 },
  );
  const age = useAge(loaded.loadedAt);
  const word = healthOf(loaded, age);
  return html`<section
    class="health ${TONE[word] ?? 'warn'}"
    aria-label=${text.condition[word] ?? word}
    data-condition=${word}
  >
    <span class="sign" aria-hidden="true">${ICON[word] ?? '!'}</span>
    <div><${Headline} word=${word} loaded=${loaded} /><${Why} word=${word} loaded=${loaded} age=${age} /></div>
    ${loaded.data && !loaded.error && word !== 'unknown' ? html`<${Facts} health=${loaded.data} />` : null}
  </section>`;
}
