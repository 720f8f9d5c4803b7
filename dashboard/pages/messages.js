// Messages page: the list, the executions, or one message.

import { html } from '../lib/html.js';
import { Messages } from './messages/list.js';
import { Executions } from './messages/executions.js';
import { Message } from './message/detail.js';

export function MessagesOrMessage({ route }) {
  const [, id] = route.parts;
  if (id === 'executions') return html`<${Executions} route=${route} />`;
  return id ? html`<${Message} id=${id} />` : html`<${Messages} route=${route} />`;
}
