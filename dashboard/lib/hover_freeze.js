// Hover freeze: a value does not change while the pointer is over the element that shows it.

import { useRef, useState } from './html.js';

/** Returns the value, frozen while the pointer is over the element, and the event handlers for the element. */
export function useHoverFreeze(value) {
  const frozen = useRef(value);
  const hovered = useRef(false);
  const [, rerender] = useState(0);
  if (!hovered.current) frozen.current = value;
  const set = (isHovered) => () => {
    hovered.current = isHovered;
    if (!isHovered) rerender((count) => count + 1);
  };
  return [frozen.current, { onMouseEnter: set(true), onMouseLeave: set(false) }];
}
