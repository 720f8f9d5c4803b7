// Who looks, and what they may do. The server checks every call; this only explains.

import { createContext, useContext } from './html.js';

export const Session = createContext(null);
export const useSession = () => useContext(Session);

const RANK = { viewer: 0, operator: 1, admin: 2 };

/** Whether a role suffices for another. */
export const may = (session, role) => (RANK[session?.user?.role] ?? -1) >= RANK[role];
