import type { SerializedOutputData } from '@cashu/cashu-ts';
import { type DBSchema, openDB } from 'idb';
import { LATE_PAYMENT_MS } from './limits.ts';

// What the browser keeps: ecash, and requests to mints that may not have been answered yet (ADR 43).

/**
 * Ecash of one key at one mint. With `outputs`, it is being exchanged: as soon as the mint has signed them, they replace
 * `quoteId` or `proofs`. With `melt`, it is paying an invoice. With `isToken`, the user has given it away.
 */
export interface Holding {
  id: string;
  /** The Nostr key of the user. */
  pubkey: string;
  mintUrl: string;
  createdAtMs: number;
  amountSat: number;
  /** Serialized by cashu-ts. */
  proofs: string[];
  /** The mint quote that is being collected. */
  quoteId?: string;
  outputs?: SerializedOutputData[];
  /** The payment of an invoice, and its amount. */
  melt?: {
    quoteId: string;
    amountSat: number;
    changeOutputs: SerializedOutputData[];
  };
  isToken?: boolean;
  /** Why the mint has not collected the quote, in words. */
  problem?: string;
  /** Of a quote that the user has requested here. */
  invoice?: { request: string; expiresAtMs: number };
  /** The username that this quote or token is to buy. When the quote is collected, it becomes a token. */
  username?: string;
  /** The username that the user had when requesting the invoice, and agreed to replace. */
  replacedName?: string;
}

interface WalletSchema extends DBSchema {
  holdings: { key: string; value: Holding; indexes: { pubkey: string } };
  /** Quotes that are collected, here or by another wallet. The server may learn about it hours later. */
  collected: { key: string; value: true };
}

let opening: ReturnType<typeof openDB<WalletSchema>> | null = null;

async function openWallet() {
  opening ??= openDB<WalletSchema>('wallet', 1, {
    upgrade: (db) => {
      db.createObjectStore('holdings', { keyPath: 'id' }).createIndex('pubkey', 'pubkey');
      db.createObjectStore('collected');
    },
    // The browser may close the database, for example if its process has crashed.
    terminated: () => {
      opening = null;
    },
  });
  opening.catch(() => {
    opening = null;
  });
  return await opening;
}

const CHANNEL_NAME = 'wallet';
const channel = new BroadcastChannel(CHANNEL_NAME);

export async function listHoldings(pubkey: string): Promise<Holding[]> {
  const db = await openWallet();
  const holdings = await db.getAllFromIndex('holdings', 'pubkey', pubkey);
  return holdings.sort((a, b) => b.createdAtMs - a.createdAtMs);
}

/** Returns the value of ecash, in sats, including tokens that are not known to be taken. */
export function sumEcash(holdings: readonly Holding[]): number {
  return holdings
    .filter((holding) => !isUnpaid(holding))
    .reduce((total, { amountSat }) => total + amountSat, 0);
}

export async function listCollectedQuotes(): Promise<Set<string>> {
  return new Set(await (await openWallet()).getAllKeys('collected'));
}

/** Replaces holdings in one transaction, which the disk has stored when the promise resolves. */
export async function replaceHoldings(
  removed: readonly Holding[],
  added: readonly Holding[],
): Promise<void> {
  const transaction = (await openWallet()).transaction(['holdings', 'collected'], 'readwrite', {
    durability: 'strict',
  });
  const holdings = transaction.objectStore('holdings');
  const collected = transaction.objectStore('collected');
  const addedIds = added.map(({ id }) => id);
  const requests = [
    ...removed.filter(({ id }) => !addedIds.includes(id)).map(({ id }) => holdings.delete(id)),
    ...added.map((holding) => holdings.put(holding)),
    ...removed
      .filter(({ quoteId }) => quoteId !== undefined)
      .filter(({ quoteId }) => !added.some((holding) => holding.quoteId === quoteId))
      .map(({ id }) => collected.put(true, id)),
  ];
  await Promise.all([...requests, transaction.done]);
  channel.postMessage(null);
}

/** Calls a function after each change, in this and in other tabs. Returns a function that ends this. */
export function watchHoldings(onChange: () => void): () => void {
  // A channel does not receive what it has sent.
  const listener = new BroadcastChannel(CHANNEL_NAME);
  listener.onmessage = onChange;
  return () => listener.close();
}

/** The id of a holding for a quote, and its key among the collected quotes. */
export function toQuoteKey(mintUrl: string, quoteId: string): string {
  return `${mintUrl} ${quoteId}`;
}

export function isSpendable({ quoteId, outputs, melt, isToken }: Holding): boolean {
  return !(quoteId ?? outputs ?? melt ?? isToken);
}

/** Whether it is an invoice that is not known to be paid. */
export function isUnpaid({ invoice, outputs }: Holding): boolean {
  return invoice !== undefined && outputs === undefined;
}

/** Whether it is an invoice that was not paid in time: if a payment was under way when it expired, it has failed. */
export function hasLapsed(holding: Holding): boolean {
  const { expiresAtMs = 0 } = holding.invoice ?? {};
  return isUnpaid(holding) && Date.now() > expiresAtMs + LATE_PAYMENT_MS;
}

/** Returns the username that the user has begun to buy, unless it is theirs already. */
export function findBegunPurchase(
  holdings: readonly Holding[],
  ownName: string | undefined,
): string | undefined {
  const begun = holdings.filter((holding) => !hasLapsed(holding)).map(({ username }) => username);
  return begun.find((username) => username !== undefined && username !== ownName);
}

export function isUnfinished({ outputs, melt }: Holding): boolean {
  return outputs !== undefined || melt !== undefined;
}
