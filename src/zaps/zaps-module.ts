import type { Clock } from '../clock.ts';
import type { Db } from '../database/transaction.ts';
import type { Logger } from '../log.ts';
import type { MintPolicy } from '../mints/mint-policy.ts';
import type { Egress } from '../net/egress.ts';
import { loadEventSigner, loadEventVerifier } from '../nostr/events.ts';
import { RelayListCache } from '../relays/relay-list-cache.ts';
import { RelayPool } from '../relays/relay-pool.ts';
import { ProfileCache } from './profile-cache.ts';
import { ReceiptDispatcher } from './receipt-dispatcher.ts';
import { createReceiptSigner } from './zap-receipts.ts';

interface ZapsModuleOptions {
  db: Db;
  /** Signs zap receipts; hex. Null: payments get no receipts. */
  secretKey: string | null;
  operatorRelays: readonly string[];
  mintPolicy: MintPolicy;
  /** Per recipient; 0: no limit. */
  maxReceiptsPerHour: number;
  allowPrivateNetworks: boolean;
  egress: Egress;
  clock: Clock;
  monotonicMs: () => number;
  log: Logger;
}

export async function createZapsModule(options: ZapsModuleOptions) {
  const { secretKey, mintPolicy, egress, clock, log } = options;
  const verifyEvent = await loadEventVerifier();
  const signer = secretKey === null ? null : await loadEventSigner(secretKey);
  const relayPool = new RelayPool(egress.connect, { signer, verifyEvent, clock, log });
  const receiptDispatcher = new ReceiptDispatcher({ ...options, relayPool });
  const recipientRelays = new RelayListCache({
    ...options,
    kind: 10_002,
    relayPool,
    allowStale: true,
  });
  return {
    /** Returns the key that signs receipts of payments at a mint; null if they get no receipts. */
    getZapPubkey: (mintUrl: string) =>
      signer !== null && mintPolicy.hasZapReceipts(mintUrl) ? signer.pubkey : null,
    verifyEvent,
    /** Null without a secret key. */
    receiptSigning: signer && {
      signReceipts: createReceiptSigner({ ...options, signer }),
      onReceiptsCreated: (relayUrls: readonly string[]) => receiptDispatcher.wake(relayUrls),
    },
    receiptDispatcher,
    recipientRelays,
    profiles: new ProfileCache({
      ...options,
      fetch: egress.createFetch(),
      relayPool,
      recipientRelays,
    }),
  };
}
