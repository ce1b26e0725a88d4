import { createStore } from './browser-storage.ts';

// The session in the storage of the tab, where it survives a reload. It never contains a key.

export interface SavedSession {
  /** A JWT, which is valid for 30 minutes. */
  token: string;
  pubkey: string;
}

export const { save: saveSession, read: readSession } = createStore<SavedSession>(
  () => sessionStorage,
  'session',
);
