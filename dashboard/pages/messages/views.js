// Saved views: named filters, stored per user.

import { html, useState } from '../../lib/html.js';
import { get, pathSegment, put, remove } from '../../lib/api.js';
import { useLoad } from '../../lib/live.js';
import { FormDialog } from '../../lib/form.js';
import { Panel } from '../../lib/panel.js';
import { ActionButton, Field, useToast } from '../../lib/ui.js';
import { messages } from '../../texts.js';

const text = messages.views;

function SaveView({ page, query, onClose, onDone }) {
  const [name, setName] = useState('');
  const toast = useToast();
  const keep = async () => {
    await put(`/views/${pathSegment(name.trim())}`, { name: name.trim(), page, query });
    toast({ text: text.saved(name.trim()) });
    onDone();
  };
  return html`<${FormDialog}
    title=${text.title}
    about=${text.yours}
    button=${text.button}
    ready=${name.trim() !== ''}
    onDo=${keep}
    onClose=${onClose}
  >
    ${(wrong) => html`
      <${Field} label=${text.name} error=${wrong.name}>
        <input autofocus maxlength="100" value=${name} onInput=${(event) => setName(event.target.value)} />
      <//>
      <p class="mono soft">${query || text.all}</p>
    `}
  <//>`;
}

function View({ view, onChoose, onGone }) {
  const toast = useToast();
  const forget = async () => {
    await remove(`/views/${pathSegment(view.name)}`);
    toast({ text: text.removed(view.name) });
    onGone();
  };
  return html`<li>
    <button type="button" class="quiet" onClick=${() => onChoose(view)}>
      <span>${view.name}</span>
      <span class="faint mono clip">${view.query || text.all}</span>
    </button>
    <${ActionButton}
      kind="quiet small"
      label=${text.remove(view.name)}
      title=${text.remove(view.name)}
      onClick=${forget}
    >
      ✕
    <//>
  </li>`;
}

export function Views({ page, query, onApply }) {
  const [keeping, setKeeping] = useState(false);
  const loaded = useLoad((signal) => get('/views', {}, { signal }), 'views');
  const views = (loaded.data?.items ?? []).filter((view) => view.page === page);
  return html`
    <${Panel} label=${text.label}>
      ${(close) => html`
        ${views.length === 0
          ? html`<p class="faint">${text.none}</p>`
          : html`<ul>
              ${views.map(
                (view) =>
                  html`<${View}
                    key=${view.name}
                    view=${view}
                    onGone=${loaded.reload}
                    onChoose=${() => {
                      onApply(view.query);
                      close();
                    }}
                  />`,
              )}
            </ul>`}
        <${ActionButton}
          kind="small"
          onClick=${() => {
            setKeeping(true);
            close();
          }}
        >
          ${text.save}
        <//>
      `}
    <//>
    ${keeping
      ? html`<${SaveView} page=${page} query=${query} onClose=${() => setKeeping(false)} onDone=${loaded.reload} />`
      : null}
  `;
}
