import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { SocketConnector } from '../net/guarded-socket.ts';
import { loadEventSigner, loadEventVerifier } from '../nostr/events.ts';
import type { Store } from '../store.ts';
import { ReceiptDispatcher } from './receipt-dispatcher.ts';
import { RecipientRelays } from './recipient-relays.ts';
import type { RelayTiming } from './relay-connection.ts';
import { RelayPool } from './relay-pool.ts';
import { ZapReceipts } from './zap-receipts.ts';

export interface CreateZapsOptions {
  store: Store;
  /** The operator's zap key, hex; null if there is none: then payments get no receipts. */
  secretKey: string | null;
  /** The operator's relays, normalised. */
  relays: readonly string[];
  allowPrivateNetworks: boolean;
  connect: SocketConnector;
  relayTiming: Partial<RelayTiming>;
  clock: Clock;
  monotonicMs: () => number;
  log: Log;
}

/** Constructs what signs zap receipts and delivers them to relays. */
export async function createZaps(options: CreateZapsOptions) {
  const { store, secretKey, relays, allowPrivateNetworks, clock, monotonicMs, log } = options;
  const verifyEvent = await loadEventVerifier();
  const signer = secretKey === null ? null : await loadEventSigner(secretKey);
  const relayPool = new RelayPool({
    connect: options.connect,
    signer,
    verifyEvent,
    clock,
    log,
    timing: options.relayTiming,
  });
  const receiptDispatcher = new ReceiptDispatcher({
    deliveries: store.deliveries,
    relayPool,
    ownRelays: relays,
    allowPrivateNetworks,
    clock,
    log,
  });
  const allowPrivateRelays = allowPrivateNetworks;
  return {
    /** The public key that signs receipts, hex; null without a zap key. */
    pubkey: signer?.pubkey ?? null,
    verifyEvent,
    receipts: signer && {
      receipts: new ZapReceipts({ signer, relays, allowPrivateRelays, log }),
      onReceipts: () => receiptDispatcher.notice(),
    },
    receiptDispatcher,
    recipientRelays: new RecipientRelays({
      pool: relayPool,
      relays,
      allowPrivate: allowPrivateRelays,
      monotonicMs,
    }),
  };
}
