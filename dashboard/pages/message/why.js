// Why box of a message: the reason for its state, with a link to the cause.

import { html } from '../../lib/html.js';
import { batchPage, jobPage, messagesWith, queuePage } from '../../lib/links.js';
import { to } from '../../lib/route.js';
import { Ago, When } from '../../lib/time.js';
import { message } from '../../texts.js';
import { isPlanned } from './planned.js';

const text = message.why;
const INSTANT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;
const TONES = {
  running: 'busy',
  ready: 'idle',
  waiting_until: 'idle',
  done: 'good',
  cancelled: 'mute',
  dead: 'bad',
  stale: 'bad',
  no_worker: 'bad',
  no_handler: 'bad',
  circuit_open: 'bad',
};
const SIGNS = { good: '✓', bad: '!', busy: '▶', idle: '◷', warn: 'Ⅱ', mute: '–' };

/** A sentence of the server, with instants in the zone of the viewer. */
export const Sentence = ({ sentence }) =>
  html`${sentence.split(INSTANT).map((part) => (INSTANT.test(part) ? html`<${When} at=${part} />` : part))}`;

/** Link to the cause: [label, address], or null. */
function causeLink(found) {
  const { job, queue, key, waits_for: batch, topic } = found;
  return (
    {
      no_worker: [text.workers, to(['workers'])],
      no_handler: [text.workers, to(['workers'])],
      queue_paused: [text.queue, queuePage(queue)],
      limit_reached: [text.queue, queuePage(queue)],
      rate_limited: [text.queue, queuePage(queue)],
      job_paused: job && !isPlanned(found) ? [text.job, jobPage(job)] : null,
      waits_for_key: key ? [text.key, messagesWith({ state: 'pending,running', key })] : null,
      waits_for_batch: batch ? [text.batch, batchPage(batch)] : null,
      circuit_open: [text.topics, to(['topics'], { tab: 'subscriptions' })],
      ready: [text.queue, queuePage(queue)],
      stale: [text.workers, to(['workers'])],
      dead: [text.group, messagesWith({ state: 'dead', topic })],
    }[found.why.word] ?? null
  );
}

export function Why({ of }) {
  const { word, sentence, details } = of.why;
  const tone = TONES[word] ?? 'warn';
  const link = causeLink(of);
  const waits = ['waiting_until', 'retrying', 'rate_limited'].includes(word);
  return html`<section class="reason-box ${tone}" aria-label=${text.title}>
    <span class="sign" aria-hidden="true">${SIGNS[tone]}</span>
    <div>
      <h2>
        ${text.words[word] ?? word}
        ${waits ? html` <span class="faint">· <${Ago} at=${of.due_at} /></span>` : null}
      </h2>
      <p class="sentence"><${Sentence} sentence=${sentence} /></p>
      ${details.length > 0
        ? html`<ul>${details.map((detail) => html`<li key=${detail}><${Sentence} sentence=${detail} /></li>`)}</ul>`
        : null}
    </div>
    ${link ? html`<a class="button" href=${link[1]}>${link[0]}</a>` : null}
  </section>`;
}
