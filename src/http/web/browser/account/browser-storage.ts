import type { BunkerPointer } from 'nostr-tools/nip46';

/** The session, in the storage of the tab, where it survives a reload. It never contains a key. */
export interface SavedSession {
  /** A JWT, which is valid for 30 minutes. */
  token: string;
  pubkey: string;
}

/** What a remote signer has approved: a key of this page, and where the signer is. Neither is the user's key. */
export interface Pairing {
  /** Hex. */
  secretKey: string;
  pointer: BunkerPointer;
}

export const sessionStore = createStore<SavedSession>(() => sessionStorage, 'session');
export const pairingStore = createStore<Pairing>(() => localStorage, 'signer');

/** Stores a value under a key. If the browser forbids storage, the value ends with the page. */
function createStore<Value>(getStorage: () => Storage, key: string) {
  return {
    save: (value: Value | null): void => {
      try {
        if (value === null) {
          getStorage().removeItem(key);
        } else {
          getStorage().setItem(key, JSON.stringify(value));
        }
      } catch {}
    },
    read: (): Value | null => {
      try {
        return JSON.parse(getStorage().getItem(key) ?? 'null');
      } catch {
        return null;
      }
    },
  };
}
