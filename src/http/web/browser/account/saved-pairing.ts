import type { BunkerPointer } from 'nostr-tools/nip46';
import { createStore } from './browser-storage.ts';

/** What a remote signer has approved: a key of this page, and where the signer is. Neither is the user's key. */
export interface Pairing {
  /** Hex. */
  secretKey: string;
  pointer: BunkerPointer;
}

export const { save: savePairing, read: readPairing } = createStore<Pairing>(
  () => localStorage,
  'signer',
);
