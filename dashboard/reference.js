// API reference page, built from the OpenAPI document.

import { html, render, useEffect, useMemo, useState } from './lib/html.js';
import { applyTheme, nextTheme, useTheme } from './lib/theme.js';
import { groups, search } from './reference/document.js';
import { Operation } from './reference/operation.js';
import { shell } from './texts/shell.js';
import { reference as text } from './texts/reference.js';

const HERE = new URL('.', location.href);

function useHash() {
  const read = () => decodeURIComponent(location.hash.slice(1));
  const [hash, setHash] = useState(read);
  useEffect(() => {
    const changed = () => setHash(read());
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return hash;
}

function Side({ list, open, onClose, current }) {
  return html`<nav class="side ${open ? 'open' : ''}" aria-label=${shell.menu}>
    <a class="brand" href="../" onClick=${onClose}>
      <img src="../icon.svg" alt="" width="22" height="22" />
      ${shell.name}
    </a>
    ${list.map(
      (group) =>
        html`<a
          key=${group.name}
          class="item"
          href="#${group.name}"
          aria-current=${current === group.name ? 'true' : null}
          onClick=${onClose}
        >
          ${group.name}
          <span class="faint num">${group.operations.length}</span>
        </a>`,
    )}
  </nav>`;
}

function Top({ words, onWords, onMenu }) {
  const theme = useTheme();
  return html`<header class="top">
    <button class="quiet menu" onClick=${onMenu} aria-label=${shell.menu}>☰</button>
    <input
      type="search"
      class="find"
      placeholder=${text.find}
      aria-label=${text.find}
      value=${words}
      onInput=${(event) => onWords(event.target.value)}
    />
    <span class="spring"></span>
    <a class="wide" href="./openapi.json">${text.document}</a>
    <a href="../">${text.dashboard}</a>
    <button class="quiet" onClick=${nextTheme} title=${shell.theme[theme]} aria-label=${shell.theme[theme]}>
      ${{ system: '◐', light: '☀', dark: '☾' }[theme]}
    </button>
  </header>`;
}

function Notes({ document }) {
  const open = (document.security ?? []).some((way) => Object.keys(way).length === 0);
  const notes = [
    { ...text.signIn, text: open ? `${text.signIn.open} ${text.signIn.text}` : text.signIn.text },
    text.problems,
    text.pages,
    text.repeat,
  ];
  return html`<div class="notes">
    ${notes.map(
      (note) =>
        html`<section class="card" key=${note.title}>
          <div class="body"><h2>${note.title}</h2><p class="soft">${note.text}</p></div>
        </section>`,
    )}
  </div>`;
}

function Reference({ document: api }) {
  const all = useMemo(() => groups(api), [api]);
  const hash = useHash();
  const [words, setWords] = useState('');
  const [menu, setMenu] = useState(false);
  const [opened, setOpened] = useState(() => new Set([hash]));
  const shown = useMemo(() => search(all, words), [all, words]);
  const toggle = (id) => (open) =>
    setOpened((before) => {
      const next = new Set(before);
      if (open) next.add(id);
      else next.delete(id);
      return next;
    });
  useEffect(() => {
    if (!hash) return;
    toggle(hash)(true);
    document.getElementById(hash)?.scrollIntoView();
  }, [hash, all]);
  const base = new URL('..', HERE).href.replace(/\/$/, '');
  return html`<div class="frame">
    <${Side} list=${shown} open=${menu} onClose=${() => setMenu(false)} current=${hash} />
    <div>
      <${Top} words=${words} onWords=${setWords} onMenu=${() => setMenu(!menu)} />
      <main id="main" tabindex="-1" class="reference">
        <header class="head">
          <div>
            <h1>${api.info.title} ${text.title}</h1>
            <p class="about">${text.about} ${text.version(api.info.version)}</p>
          </div>
        </header>
        ${words ? null : html`<${Notes} document=${api} />`}
        ${shown.length === 0 ? html`<p class="faint">${text.none(words)}</p>` : null}
        ${shown.map(
          (group) => html`<section class="group" key=${group.name} id=${group.name} aria-label=${group.name}>
            <h2>${group.name}</h2>
            <p class="faint">${group.about}</p>
            ${group.operations.map(
              (one) =>
                html`<${Operation}
                  key=${one.id}
                  one=${one}
                  document=${api}
                  base=${base}
                  open=${opened.has(one.id)}
                  onToggle=${toggle(one.id)}
                />`,
            )}
          </section>`,
        )}
      </main>
    </div>
  </div>`;
}

function Page() {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    fetch('./openapi.json', { headers: { accept: 'application/json' }, credentials: 'same-origin' })
      .then((response) => {
        if (!response.ok) throw new Error(text.failed);
        return response.json();
      })
      .then(setFound, setError);
  }, []);
  if (error) return html`<p class="notice bad" role="alert">${text.failed}</p>`;
  return found
    ? html`<${Reference} document=${found} />`
    : html`<p class="loading faint" role="status">${shell.loading}</p>`;
}

applyTheme();
render(html`<${Page} />`, document.getElementById('app'));
