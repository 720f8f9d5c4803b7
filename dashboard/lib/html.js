// Rendering: tagged templates on Preact. Everything of the libraries that a view needs comes from here.

import { h, render, Fragment, createContext, createPortal } from '../vendor/preact.js';
import htm from '../vendor/htm.js';

export { h, render, Fragment, createContext, createPortal };
export {
  useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useReducer, useErrorBoundary, useId,
} from '../vendor/hooks.js';

export const html = htm.bind(h);
