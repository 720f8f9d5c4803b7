// Account tab: the signed-in user, and a form that changes the password.

import { html, useState } from '../../lib/html.js';
import { post } from '../../lib/api.js';
import { useSession } from '../../lib/session.js';
import { ActionButton, Card, Facts, Field, useToast } from '../../lib/ui.js';
import { settings } from '../../texts.js';

const text = settings.account;

function Password() {
  const [fields, setFields] = useState({ old: '', new: '' });
  const [problem, setProblem] = useState(null);
  const toast = useToast();
  const set = (changes) => setFields({ ...fields, ...changes });
  const change = async () => {
    try {
      await post('/session/password', fields);
      setProblem(null);
      setFields({ old: '', new: '' });
      toast({ text: text.done });
    } catch (error) {
      setProblem(error);
    }
  };
  const least = useSession().password_length_min;
  const input = (name, complete, hint) =>
    html`<${Field} label=${text[name]} hint=${hint} error=${problem?.fields?.[name]}>
      <input
        type="password"
        autocomplete=${complete}
        value=${fields[name]}
        onInput=${(event) => set({ [name]: event.target.value })}
      />
    <//>`;
  return html`<${Card} title=${text.password}>
    <form onSubmit=${(event) => event.preventDefault()}>
      ${input('old', 'current-password')}
      ${input('new', 'new-password', text.newHint(least))}
      ${problem ? html`<p class="notice bad" role="alert">${problem.message}</p>` : null}
      <${ActionButton} role="viewer" kind="primary" disabled=${!fields.old || !fields.new} onClick=${change}>
        ${text.button}
      <//>
    </form>
  <//>`;
}

export function Account() {
  const session = useSession();
  return html`<div class="grid begin">
    <${Card} title=${settings.tabs.account}>
      <${Facts}
        rows=${[
          [text.who, session.user?.name],
          [text.role, session.user?.role],
          [text.auth, session.auth],
        ]}
      />
    <//>
    ${session.auth === 'password'
      ? html`<${Password} />`
      : html`<${Card} title=${text.password}><p class="faint">${text.none(session.auth)}</p><//>`}
  </div>`;
}
