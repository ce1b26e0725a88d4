import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import { loadEventSigner, loadEventVerifier } from '../nostr/events.ts';
import type { Store } from '../store.ts';
import { ReceiptDispatcher } from './receipt-dispatcher.ts';
import type { RelayTimeouts } from './relay-connection.ts';
import { RelayListCache } from './relay-list-cache.ts';
import { RelayPool } from './relay-pool.ts';
import { createReceiptSigner } from './zap-receipts.ts';

interface ZapsModuleOptions {
  store: Store;
  /** Signs zap receipts; hex. Null: payments get no receipts. */
  secretKey: string | null;
  /** The operator's relays, normalised. */
  relays: readonly string[];
  mintPolicy: MintPolicy;
  /** Per recipient; 0: no limit. */
  maxReceiptsPerHour: number;
  allowPrivateNetworks: boolean;
  connect: WebSocketConnector;
  relayTimeouts: Partial<RelayTimeouts>;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Constructs the objects that sign zap receipts, deliver them to relays, and look up relay lists. */
export async function createZapsModule({
  secretKey,
  relays: operatorRelays,
  ...options
}: ZapsModuleOptions) {
  const verifyEvent = await loadEventVerifier();
  const signer = secretKey === null ? null : await loadEventSigner(secretKey);
  const timeouts = options.relayTimeouts;
  const relayPool = new RelayPool({ ...options, signer, verifyEvent, timeouts });
  const receiptDispatcher = new ReceiptDispatcher({
    ...options,
    db: options.store.db,
    relayPool,
    operatorRelays,
  });
  return {
    /** Returns the public key that signs the receipts of payments at a mint, hex. Null if they get no receipts. */
    getZapPubkey: (mintUrl: string) =>
      signer && options.mintPolicy.hasZapReceipts(mintUrl) ? signer.pubkey : null,
    verifyEvent,
    receiptSigning: signer && {
      signReceipts: createReceiptSigner({ ...options, signer, operatorRelays }),
      onReceiptsCreated: (relayUrls: readonly string[]) => receiptDispatcher.wake(relayUrls),
    },
    receiptDispatcher,
    recipientRelays: new RelayListCache({ ...options, pool: relayPool, operatorRelays }),
  };
}
