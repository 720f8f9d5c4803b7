// Message facts: properties, headers, progress and related messages.

import { html } from '../../lib/html.js';
import { batchPage, jobPage, messagePage, messagesWith, queuePage } from '../../lib/links.js';
import { shortId } from '../../lib/copy.js';
import { attempts } from '../../lib/message.js';
import { bytes } from '../../lib/number.js';
import { to } from '../../lib/route.js';
import { Ago, When } from '../../lib/time.js';
import { Badge, Card, Facts, Progress, StateBadge } from '../../lib/ui.js';
import { message } from '../../texts.js';

const HIDDEN = '[redacted]';
const Time = ({ at }) => html`<span><${When} at=${at} /> <span class="faint">(<${Ago} at=${at} />)</span></span>`;

export function MessageFacts({ of }) {
  const text = message.facts;
  const rows = [
    [
      text.state,
      html`<span class="flags">
        <${StateBadge} word=${of.phase} />
        ${of.dead ? html`<${Badge} tone="bad">${String(of.dead).replaceAll('_', ' ')}<//>` : null}
      </span>`,
    ],
    [text.queue, html`<a href=${queuePage(of.queue)}>${of.queue}</a>`],
    of.key ? [text.key, html`<a href=${messagesWith({ key: of.key })}>${of.key}</a>`] : null,
    of.dedupe ? [text.dedupe, of.dedupe] : null,
    [text.made, html`<${Time} at=${of.created_at} />`],
    [text.due, html`<${Time} at=${of.due_at} />`],
    of.ended_at ? [text.ended, html`<${Time} at=${of.ended_at} />`] : null,
    of.nominal ? [text.nominal, html`<${When} at=${of.nominal} />`] : null,
    [text.attempt, attempts(of)],
    [text.priority, of.priority],
    [text.source, text.sources[of.source] ?? of.source],
    of.crashes ? [text.crashes, of.crashes] : null,
    of.snoozes ? [text.snoozes, of.snoozes] : null,
    of.transport ? [text.transport, of.transport] : null,
    [text.size, bytes(of.size)],
  ];
  return html`<${Card} title=${text.title}>
    <${Facts} rows=${rows} />
    ${of.handler_options
      ? html`<details>
          <summary>${text.handlerOptions}</summary>
          <pre tabindex="0">${JSON.stringify(of.handler_options, null, 2)}</pre>
        </details>`
      : null}
  <//>`;
}

export function Headers({ headers }) {
  const text = message.headers;
  const names = Object.keys(headers);
  return html`<${Card} title=${text.title} note=${names.length || null} flush=${names.length > 0}>
    ${names.length === 0
      ? html`<p class="faint">${text.none}</p>`
      : html`<dl class="pairs">
          ${names.map(
            (name) =>
              html`<div key=${name}>
                <dt class="mono">${name}</dt>
                <dd class="mono">
                  ${headers[name] === HIDDEN
                    ? html`<${Badge} tone="warn">${message.body.hiddenMark}<//>`
                    : headers[name]}
                </dd>
              </div>`,
          )}
        </dl>`}
  <//>`;
}

export function MessageProgress({ of }) {
  if (!of.progress) return null;
  const { percent, note, at } = of.progress;
  return html`<${Card} title=${message.progress.title}>
    ${percent === null || percent === undefined ? null : html`<${Progress} value=${percent} label=${`${percent} %`} />`}
    <p>${note} <span class="faint">(${message.progress.note} <${Ago} at=${at} />)</span></p>
  <//>`;
}

const Link = ({ id }) => html`<a class="mono" href=${messagePage(id)} title=${id}>${shortId(id)}</a>`;

export function Related({ of }) {
  const text = message.related;
  const { parent, children = [], batch } = of.related;
  const rows = [
    of.job ? [text.job, html`<a href=${jobPage(of.job)}>${of.job}</a>`] : null,
    parent ? [text.parent, html`<${Link} id=${parent} />`] : null,
    children.length > 0
      ? [text.children, html`<span class="inline">${children.map((id) => html`<${Link} key=${id} id=${id} />`)}</span>`]
      : null,
    (batch ?? of.batch)
      ? [text.batch, html`<a class="mono" href=${batchPage(batch ?? of.batch)}>${shortId(batch ?? of.batch)}</a>`]
      : null,
    of.waits_for
      ? [text.waitsFor, html`<a class="mono" href=${batchPage(of.waits_for)}>${shortId(of.waits_for)}</a>`]
      : null,
    of.correlation
      ? [
          text.correlation,
          html`<a class="mono" href=${to(['messages'], { q: of.correlation })} title=${of.correlation}>
            ${shortId(of.correlation)}
          </a>`,
        ]
      : null,
    of.causation
      ? [text.causation, html`<span class="mono" title=${of.causation}>${shortId(of.causation)}</span>`]
      : null,
  ].filter(Boolean);
  return html`<${Card} title=${text.title}>
    ${rows.length === 0 ? html`<p class="faint">${text.none}</p>` : html`<${Facts} rows=${rows} />`}
  <//>`;
}
