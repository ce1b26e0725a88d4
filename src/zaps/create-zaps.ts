import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { WebSocketConnector } from '../net/guarded-websocket.ts';
import { loadEventSigner, loadEventVerifier } from '../nostr/events.ts';
import type { Store } from '../store.ts';
import { ReceiptDispatcher } from './receipt-dispatcher.ts';
import type { RelayTimeouts } from './relay-connection.ts';
import { RelayListCache } from './relay-list-cache.ts';
import { RelayPool } from './relay-pool.ts';
import { createReceiptSigner } from './zap-receipts.ts';

interface CreateZapsOptions {
  store: Store;
  /** The operator's zap key, hex. Null: payments get no receipts. */
  secretKey: string | null;
  /** The operator's relays, normalised. */
  relays: readonly string[];
  allowPrivateNetworks: boolean;
  connect: WebSocketConnector;
  relayTimeouts: Partial<RelayTimeouts>;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

/** Constructs the services that sign zap receipts and deliver them to relays. */
export async function createZaps({
  secretKey,
  relays: operatorRelays,
  ...options
}: CreateZapsOptions) {
  const { allowPrivateNetworks, log } = options;
  const verifyEvent = await loadEventVerifier();
  const signer = secretKey === null ? null : await loadEventSigner(secretKey);
  const timeouts = options.relayTimeouts;
  const relayPool = new RelayPool({ ...options, signer, verifyEvent, timeouts });
  const deliveries = options.store.receiptDeliveries;
  const receiptDispatcher = new ReceiptDispatcher({
    ...options,
    deliveries,
    relayPool,
    operatorRelays,
  });
  return {
    /** Signs receipts; hex. Null without a zap key. */
    pubkey: signer?.pubkey ?? null,
    verifyEvent,
    receipts: signer && {
      receipts: createReceiptSigner({ signer, operatorRelays, allowPrivateNetworks, log }),
      onReceiptsCreated: () => receiptDispatcher.wake(),
    },
    receiptDispatcher,
    recipientRelays: new RelayListCache({ ...options, pool: relayPool, operatorRelays }),
  };
}
