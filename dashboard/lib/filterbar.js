// Filter bar: input with suggestions for keys and values, applied on Enter. An invalid filter is reported and not
// applied: without the invalid part it would match more than intended.

import { html, useEffect, useId, useRef, useState } from './html.js';
import { choose, parse, suggest } from './filter.js';
import { messages } from '../texts.js';

const text = messages.bar;

/** Returns a function that sets the caret after the next rendering. */
function useCaret(input) {
  const pendingCaret = useRef(null);
  useEffect(() => {
    if (pendingCaret.current === null) return;
    input.current.setSelectionRange(pendingCaret.current, pendingCaret.current);
    pendingCaret.current = null;
  });
  return (caret) => {
    pendingCaret.current = caret;
  };
}

function Suggestions({ id, items, active, onChoose }) {
  return html`<ul class="suggestions" role="listbox" id=${id} aria-label=${text.suggestions}>
    ${items.map(
      (item, index) => html`<li
        role="option"
        id=${`${id}-${index}`}
        key=${item.text}
        aria-selected=${index === active}
        onPointerDown=${(event) => {
          event.preventDefault();
          onChoose(item);
        }}
      >
        <span class="mono">${item.label ?? item.text}</span>
        ${item.about ? html`<span class="faint">${item.about}</span>` : null}
      </li>`,
    )}
  </ul>`;
}

/** Handles a key; returns whether it was used. */
function keyAction(key, { items, active, setActive, take, apply, close }) {
  const shown = items.length > 0;
  if (key === 'ArrowDown' && shown) {
    setActive(Math.min(active + 1, items.length - 1));
    return true;
  }
  if (key === 'ArrowUp' && shown) {
    setActive(Math.max(active - 1, -1));
    return true;
  }
  if (key === 'Tab' && shown && active >= 0) {
    take(items[active]);
    return true;
  }
  if (key === 'Enter') {
    if (shown && active >= 0) take(items[active]);
    else apply();
    return true;
  }
  if (key === 'Escape' && shown) {
    close();
    return true;
  }
  return false;
}

/** `value` is the applied filter; `values` are the known values by key; `onFocus` may load them. */
export function FilterBar({ value, onApply, values, grammar, placeholder = text.placeholder, onFocus }) {
  const [typed, setTyped] = useState(value);
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const [caret, setCaret] = useState(value.length);
  const input = useRef(null);
  const id = useId();
  const putCaret = useCaret(input);
  useEffect(() => {
    setTyped((before) => (before.trim() === value.trim() ? before : value));
  }, [value]);
  const place = suggest(typed, caret, values, grammar);
  const items = open ? place.items : [];
  const { problems } = parse(typed, grammar);
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const apply = (next = typed) => {
    close();
    if (parse(next, grammar).problems.length === 0) onApply(next.trim());
  };
  const take = (item) => {
    const chosen = choose(typed, place, item);
    setTyped(chosen.text);
    setCaret(chosen.caret);
    putCaret(chosen.caret);
    setActive(-1);
    if (!item.hasValue) {
      setOpen(false);
      onApply(chosen.text.trim());
    }
  };
  const moved = (event) => {
    setCaret(event.target.selectionStart ?? 0);
  };
  const changed = (event) => {
    setTyped(event.target.value);
    moved(event);
    setOpen(true);
    setActive(-1);
  };
  const pressed = (event) => {
    if (keyAction(event.key, { items, active, setActive, take, apply, close })) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  return html`<div class="filterbar">
    <div class="filterbox">
      <input
        type="text"
        ref=${input}
        role="combobox"
        class="mono"
        spellcheck=${false}
        autocomplete="off"
        autocapitalize="off"
        aria-label=${text.label}
        placeholder=${placeholder}
        aria-expanded=${items.length > 0}
        aria-controls=${id}
        aria-autocomplete="list"
        aria-activedescendant=${active >= 0 ? `${id}-${active}` : null}
        title=${text.keys}
        value=${typed}
        onInput=${changed}
        onKeyDown=${pressed}
        onKeyUp=${moved}
        onClick=${(event) => {
          moved(event);
          setOpen(true);
        }}
        onFocus=${() => {
          onFocus?.();
        }}
        onBlur=${() => {
          close();
        }}
      />
      ${typed
        ? html`<button
            type="button"
            class="quiet small"
            onClick=${() => {
              setTyped('');
              apply('');
              input.current.focus();
            }}
            aria-label=${text.clear}
          >
            ✕
          </button>`
        : null}
      ${items.length > 0
        ? html`<${Suggestions} id=${id} items=${items} active=${active} onChoose=${take} />`
        : html`<ul id=${id} hidden role="listbox" aria-label=${text.suggestions}></ul>`}
    </div>
    ${typed.trim() !== value.trim()
      ? html`<button type="button" class="primary" onClick=${() => apply()}>${text.apply}</button>`
      : null}
    ${problems.length > 0 && !open
      ? html`<p class="wrong" role="alert">${problems.map((found) => found.problem).join(' ')}</p>`
      : null}
  </div>`;
}
