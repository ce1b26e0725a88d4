// The session in the storage of the tab, where it survives a reload. It never contains a key.

export interface SavedSession {
  /** A JWT, which is valid for 30 minutes. */
  token: string;
  pubkey: string;
}

const STORAGE_KEY = 'session';

/** If the browser forbids storage, the session ends with the page. */
export function saveSession(session: SavedSession | null): void {
  try {
    if (session === null) {
      sessionStorage.removeItem(STORAGE_KEY);
    } else {
      sessionStorage.setItem(STORAGE_KEY, JSON.stringify(session));
    }
  } catch {}
}

export function readSession(): SavedSession | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? 'null');
  } catch {
    return null;
  }
}
