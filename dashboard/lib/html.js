// Rendering with tagged templates on Preact. Views import everything of the libraries from here.

import { h, render, Fragment, createContext, createPortal } from '../vendor/preact.js';
import htm from '../vendor/htm.js';

export { h, render, Fragment, createContext, createPortal };
export {
  useState,
  useEffect,
  useLayoutEffect,
  useRef,
  useMemo,
  useCallback,
  useContext,
  useReducer,
  useErrorBoundary,
  useId,
} from '../vendor/hooks.js';

export const html = htm.bind(h);
