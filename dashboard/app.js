// Application frame: session, sign-in, navigation, stream state, and keyboard shortcuts.

import { html, render, useEffect, useErrorBoundary, useMemo, useRef, useState } from './lib/html.js';
import { get, post, setCsrfToken, remove } from './lib/api.js';
import { go, parse, to, useRoute } from './lib/route.js';
import { users } from './lib/cli_commands.js';
import { pause, start, stop, useStream } from './lib/live.js';
import { Session } from './lib/session.js';
import { clock } from './lib/time.js';
import { Card, Dialog, Empty, Field, ToastArea } from './lib/ui.js';
import { Palette } from './lib/palette.js';
import { applyTheme, nextTheme, useTheme } from './lib/theme.js';
import { shell } from './texts.js';
import { pages } from './pages.js';

const WORK = ['overview', 'jobs', 'calendar', 'messages', 'queues', 'dead', 'batches', 'topics'];
const SYSTEM = ['workers', 'storage', 'audit', 'settings'];
const JUMPS = { o: 'overview', j: 'jobs', m: 'messages', q: 'queues', d: 'dead', w: 'workers', c: 'calendar' };

const Logo = () => html`<svg viewBox="0 0 32 32" aria-hidden="true">
  <circle cx="16" cy="16" r="14" fill="var(--accent)" />
  <path
    d="M16 8v8l6 4"
    fill="none"
    stroke="var(--on-accent)"
    stroke-width="3"
    stroke-linecap="round"
    stroke-linejoin="round"
  />
</svg>`;

function Side({ page, open, onClose, version }) {
  const counts = useStream().tick?.counts ?? {};
  const marks = { dead: counts.dead, messages: null };
  const item = (name) => html`<a
    class="item"
    href=${to([name])}
    aria-current=${page === name ? 'page' : null}
    onClick=${onClose}
  >
    ${shell.pages[name]}
    ${marks[name] ? html`<span class="count">${marks[name]}</span>` : null}
  </a>`;
  return html`<nav class="side ${open ? 'open' : ''}" aria-label=${shell.menu}>
    <a class="brand" href=${to(['overview'])} onClick=${onClose}><${Logo} />${shell.name}</a>
    ${WORK.map(item)}
    <h2>${shell.groups.system}</h2>
    ${SYSTEM.map(item)}
    <div class="foot"><a href="./api/docs">${shell.api}</a> · ${version}</div>
  </nav>`;
}

function Stream() {
  const { word } = useStream();
  const tones = { live: 'good blink', paused: 'warn', stale: 'warn', disconnected: 'bad' };
  return html`<button
    class="quiet"
    onClick=${() => pause(word !== 'paused')}
    title=${shell.stream[`${word}Hint`]}
    aria-pressed=${word === 'paused'}
  >
    <span class="dot ${tones[word]}"></span>
    ${shell.stream[word]}
  </button>`;
}

function Banner() {
  const { word, lastEventAt } = useStream();
  if (!lastEventAt || (word !== 'disconnected' && word !== 'stale')) return null;
  return html`<div class="banner" role="alert">${shell.banner[word]} ${clock(lastEventAt)}.</div>`;
}

function Top({ session, onMenu, onFind, onSignOut }) {
  const theme = useTheme();
  return html`<header class="top">
    <button class="quiet menu" onClick=${onMenu} aria-label=${shell.menu}>☰</button>
    <button class="finder" onClick=${onFind}><span>${shell.palette.open}</span><kbd>${shell.palette.hint}</kbd></button>
    <span class="spring"></span>
    <${Stream} />
    <button class="quiet" onClick=${nextTheme} title=${shell.theme[theme]} aria-label=${shell.theme[theme]}>
      ${{ system: '◐', light: '☀', dark: '☾' }[theme]}
    </button>
    ${session.user
      ? html`<span class="wide faint">${session.user.name} · ${shell.role[session.user.role]}</span>`
      : null}
    ${session.auth === 'password' || session.auth === 'oidc'
      ? html`<button class="quiet" onClick=${onSignOut}>${shell.signIn.out}</button>`
      : null}
  </header>`;
}

/** Error boundary: an error in a page does not break the frame. */
function Safe({ children }) {
  const [error, reset] = useErrorBoundary((problem) => console.error(problem));
  if (!error) return children;
  return html`<${Card}>
    <${Empty} title=${shell.broken} icon="!">
      <p class="mono">${error.message}</p>
      <button onClick=${reset}>${shell.again}</button>
    <//>
  <//>`;
}

function Keys({ onClose }) {
  return html`<${Dialog} title=${shell.keys.title} onClose=${onClose}>
    <table>
      <tbody>${shell.keys.list.map(([key, what]) => html`<tr><td><kbd>${key}</kbd></td><td>${what}</td></tr>`)}</tbody>
    </table>
  <//>`;
}

function useKeys(actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    let jump = 0;
    const pressed = (event) => {
      const typing = event.target.closest?.('input, textarea, select, dialog');
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        latest.current.find();
        return;
      }
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (Date.now() < jump && JUMPS[event.key]) {
        jump = 0;
        go([JUMPS[event.key]]);
        return;
      }
      const action = {
        g: () => {
          jump = Date.now() + 1_500;
        },
        '/': () => {
          event.preventDefault();
          latest.current.find();
        },
        '?': latest.current.keys,
        p: latest.current.pause,
        t: nextTheme,
        r: () => dispatchEvent(new HashChangeEvent('hashchange')),
      }[event.key];
      action?.();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

function Frame({ session, onSignOut }) {
  const route = useRoute();
  const { word } = useStream();
  const [menu, setMenu] = useState(false);
  const [over, setOver] = useState(null);
  const close = () => setOver(null);
  useKeys({ find: () => setOver('palette'), keys: () => setOver('keys'), pause: () => pause(word !== 'paused') });
  const Page = pages[route.page] ?? pages.missing;
  // The frame renders on every tick of the stream; the page only when its own data changes.
  const page = useMemo(
    () => html`<${Safe} key=${route.parts.slice(0, 2).join('/')}><${Page} route=${route} /><//>`,
    [Page, route],
  );
  return html`<div class="frame">
    <a
      class="skip"
      href="#main"
      onClick=${(event) => {
        event.preventDefault();
        document.getElementById('main').focus();
      }}
    >
      ${shell.skip}
    </a>
    <${Side}
      page=${route.page}
      open=${menu}
      onClose=${() => setMenu(false)}
      version=${`${shell.name} ${session.version ?? ''}`}
    />
    <div>
      <${Top}
        session=${session}
        onMenu=${() => setMenu(!menu)}
        onFind=${() => setOver('palette')}
        onSignOut=${onSignOut}
      />
      <${Banner} />
      <main id="main" tabindex="-1">${page}</main>
    </div>
    ${over === 'palette' ? html`<${Palette} onClose=${close} />` : null}
    ${over === 'keys' ? html`<${Keys} onClose=${close} />` : null}
  </div>`;
}

function ProviderSignIn({ name }) {
  return html`<div class="signin">
    <${Card} title=${html`<span class="inline">${shell.name}</span>`}>
      <p><a class="button primary" href="./api/v1/session/oidc">${shell.signIn.provider(name)}</a></p>
      <p class="faint">${shell.signIn.providerHint}</p>
    <//>
  </div>`;
}

function SignIn({ onSession }) {
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      onSession(await post('/session', { name: form.get('name'), password: form.get('password') }));
    } catch (problem) {
      setError(problem.message);
    }
  };
  return html`<div class="signin">
    <${Card} title=${html`<span class="inline">${shell.name}</span>`}>
      <form onSubmit=${submit}>
        <${Field} label=${shell.signIn.name}><input name="name" autocomplete="username" required autofocus /><//>
        <${Field} label=${shell.signIn.password}>
          <input name="password" type="password" autocomplete="current-password" required />
        <//>
        ${error ? html`<p class="notice bad" role="alert">${error}</p>` : null}
        <button class="primary">${shell.signIn.button}</button>
      </form>
      <p class="faint">${shell.signIn.hint} <code>${users.add()}</code></p>
    <//>
  </div>`;
}

function App() {
  const [session, setSession] = useState(null);
  const [error, setError] = useState(null);
  const take = (found) => {
    setCsrfToken(found);
    setSession(found);
    if (found.authenticated) start();
  };
  useEffect(() => {
    get('/session').then(take, setError);
    const out = () => {
      stop();
      get('/session').then((found) => {
        setCsrfToken(found);
        setSession(found);
      }, setError);
    };
    addEventListener('punctual:signed-out', out);
    return () => removeEventListener('punctual:signed-out', out);
  }, []);
  const signOut = async () => {
    stop();
    await remove('/session');
    setCsrfToken({});
    setSession({ ...session, authenticated: false, user: null });
  };
  if (error)
    return html`<div class="signin">
      <${Card}>
        <${Empty} title=${shell.failed} icon="!">
          <p>${error.message}</p>
          <button onClick=${() => location.reload()}>${shell.again}</button>
        <//>
      <//>
    </div>`;
  if (!session) return null;
  if (!session.authenticated && session.auth === 'oidc') return html`<${ProviderSignIn} name=${session.provider} />`;
  if (!session.authenticated) return html`<${SignIn} onSession=${take} />`;
  return html`<${Session.Provider} value=${session}>
    <${ToastArea}><${Frame} session=${session} onSignOut=${signOut} /><//>
  <//>`;
}

applyTheme();
if (!location.hash) history.replaceState(null, '', to([parse().page]));
render(html`<${App} />`, document.getElementById('app'));
