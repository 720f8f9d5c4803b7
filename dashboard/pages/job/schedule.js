// Schedule fields, with a live preview of the next ten times compared with the current ones.

import { html, useEffect, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { Choice } from '../../lib/choice.js';
import { instantOf } from '../../lib/form.js';
import { clock, zone as viewerZone } from '../../lib/time.js';
import { wall, zones } from '../../lib/zone.js';
import { Badge, Field } from '../../lib/ui.js';
import { job } from '../../texts.js';

const text = job.schedule;
const COUNT = 10;
const REST = 200;

/** Returns the schedule for the API; null while a field is empty. */
export function scheduleOf({ kind, cron, zone, every, at }) {
  if (kind === 'cron') return cron.trim() ? { cron: cron.trim(), ...(zone.trim() ? { zone: zone.trim() } : {}) } : null;
  if (kind === 'every') return every.trim() ? { every: every.trim() } : null;
  return instantOf(at) ? { at: instantOf(at) } : null;
}

/** Loads the preview of a schedule from the server after a pause in typing. */
export function usePreview(schedule, name) {
  const [found, setFound] = useState({ data: null, error: null, fields: {} });
  const key = JSON.stringify([schedule, name]);
  useEffect(() => {
    if (!schedule) {
      setFound({ data: null, error: null, fields: {} });
      return undefined;
    }
    const controller = new AbortController();
    const timer = setTimeout(() => {
      post(
        '/schedule/preview',
        { ...schedule, ...(name && schedule.cron ? { name } : {}), count: COUNT },
        { signal: controller.signal },
      ).then(
        (data) => setFound({ data, error: null, fields: {} }),
        (error) => {
          if (error.name !== 'AbortError') setFound({ data: null, error: error.message, fields: error.fields ?? {} });
        },
      );
    }, REST);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [key]);
  return found;
}

export function ScheduleFields({ value, onChange, kinds = ['cron', 'every', 'once'], wrong }) {
  const set = (changes) => onChange({ ...value, ...changes });
  const input = (field) => ({ value: value[field], onInput: (event) => set({ [field]: event.target.value }) });
  return html`
    ${kinds.length > 1
      ? html`<div class="field">
          <span>${text.kind}</span>
          <${Choice}
            label=${text.kind}
            choices=${kinds.map((id) => ({ id, label: text.kinds[id] }))}
            current=${value.kind}
            onChoose=${(kind) => set({ kind })}
          />
        </div>`
      : null}
    ${value.kind === 'cron'
      ? html`
          <${Field} label=${text.cron} hint=${text.cronHint} error=${wrong.cron}>
            <input class="mono" spellcheck="false" autocomplete="off" placeholder="0 2 * * *" ...${input('cron')} />
          <//>
          <${Field} label=${text.zone} hint=${text.zoneHint} error=${wrong.zone}>
            <input list="zones" spellcheck="false" autocomplete="off" placeholder=${viewerZone} ...${input('zone')} />
          <//>
          <datalist id="zones">${zones().map((zone) => html`<option key=${zone} value=${zone}></option>`)}</datalist>
        `
      : null}
    ${value.kind === 'every'
      ? html`<${Field} label=${text.every} hint=${text.everyHint} error=${wrong.every}>
          <input spellcheck="false" placeholder="5m" ...${input('every')} />
        <//>`
      : null}
    ${value.kind === 'once'
      ? html`<${Field} label=${text.at} hint=${viewerZone} error=${wrong.at}>
          <input type="datetime-local" ...${input('at')} />
        <//>`
      : null}
  `;
}

const instant = (time) => new Date(time.at).getTime();

/** Returns the times of one list that are not in the other. */
export function missing(from, other) {
  const there = new Set(other.map(instant));
  return new Set(from.filter((time) => !there.has(instant(time))).map((time) => time.at));
}

function Time({ time, mark, isShort }) {
  const other = time.zone && time.zone !== viewerZone;
  const here = `${clock(time.at, viewerZone, { seconds: false })} ${viewerZone}`;
  return html`<li class=${mark ?? ''} title=${here}>
    ${mark
      ? html`<${Badge} tone=${mark === 'added' ? 'good' : 'bad'} title=${text[mark]}>
          ${mark === 'added' ? '+' : '−'}
          <span class="visually-hidden"> ${text[mark]}</span>
        <//>`
      : null}
    <span class="num">${wall(time.local)}</span>
    ${other && !isShort ? html`<span class="faint num">${clock(time.at, viewerZone, { seconds: false })}</span>` : null}
    ${time.note
      ? html`<${Badge} tone="warn" title=${time.note}>
          ⚑<span class=${isShort ? 'visually-hidden' : ''}>${time.note.length > 28 ? text.change : time.note}</span>
        <//>`
      : null}
  </li>`;
}

const Zones = ({ zone }) =>
  html`<p class="faint">${zone}${zone === viewerZone ? '' : ` · ${text.here} (${viewerZone})`}</p>`;
const Times = ({ times, marked, mark, isShort }) =>
  html`<ol class="times">
    ${times.map(
      (time) =>
        html`<${Time} key=${time.at} time=${time} mark=${marked?.has(time.at) ? mark : null} isShort=${isShort} />`,
    )}
  </ol>`;

/** Current and new times side by side. */
function Difference({ now, then }) {
  const [added, removed] = [missing(then, now), missing(now, then)];
  return html`
    <p class="faint">${added.size || removed.size ? text.difference(added.size, removed.size) : text.unchanged}</p>
    <div class="sides">
      <div><h4>${text.now}</h4><${Times} times=${now} marked=${removed} mark="removed" isShort /></div>
      <div><h4>${text.then}</h4><${Times} times=${then} marked=${added} mark="added" isShort /></div>
    </div>
  `;
}

/** The next ten times; with `now`, beside the current ones. */
export function Preview({ preview, now = null }) {
  const { data, error, fields } = preview;
  if (error && Object.keys(fields).length === 0)
    return html`<div class="preview"><p class="notice bad" role="alert">${error}</p></div>`;
  if (!data) return html`<div class="preview"><p class="faint">${text.empty}</p></div>`;
  const times = data.occurrences;
  return html`<div class="preview" aria-live="polite">
    <p class="words">${data.in_words}</p>
    <h3>${text.preview}</h3>
    ${times.length === 0
      ? html`<p class="faint">${text.none}</p>`
      : html`
          <${Zones} zone=${times[0].zone} />
          ${now ? html`<${Difference} now=${now} then=${times} />` : html`<${Times} times=${times} />`}
        `}
    ${data.warnings.map((warning) => html`<p class="notice warn" key=${warning}>${warning}</p>`)}
  </div>`;
}
