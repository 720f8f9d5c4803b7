// Nothing moves under the pointer: a value is held while the pointer is on what shows it.

import { useRef, useState } from './html.js';

/** The value, or the one from when the pointer came; and what the element that shows it must hear. */
export function useHold(value) {
  const held = useRef(value);
  const over = useRef(false);
  const [, again] = useState(0);
  if (!over.current) held.current = value;
  const set = (isOver) => () => { over.current = isOver; if (!isOver) again((count) => count + 1); };
  return [held.current, { onMouseEnter: set(true), onMouseLeave: set(false) }];
}
