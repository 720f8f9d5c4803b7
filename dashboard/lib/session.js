// Session: the signed-in user and role. The server checks every call; this only explains missing permissions.

import { createContext, useContext } from './html.js';

export const Session = createContext(null);
export const useSession = () => useContext(Session);

const RANK = { viewer: 0, operator: 1, admin: 2 };

/** Whether the role of the session includes another role. */
export const hasRole = (session, role) => (RANK[session?.user?.role] ?? -1) >= RANK[role];
