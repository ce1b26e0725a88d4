import { createHmac } from 'node:crypto';
import type { Clock } from '../domain/clock.ts';
import { Refusal, tooMany } from '../domain/errors.ts';
import type { InboundLimits } from '../domain/limits.ts';
import { MinuteCounts } from '../domain/minute-counts.ts';
import type { MintPermit, MintRateLimiter } from '../mint/mint-rate-limiter.ts';
import type { OpenInvoices } from '../store/quote-store.ts';
import type { Store } from '../store/store.ts';
import type { InvoiceTimer } from './invoice-timing.ts';
import { mintTrouble } from './payment-terms.ts';

/**
 * How long an unpaid invoice counts, whatever its expiry: a flood shuts out other payers for an hour at most, and
 * invoices of a mint that lets them expire at once count too.
 */
const COUNTED_MS = { least: 10 * 60_000, most: 60 * 60_000 };

/** A payment may make room at any time, so a rejected payer is never sent away for longer than a minute. */
const RETRY_AFTER_MS = 60_000;

/** Address groups whose requests are counted, about 150 bytes each. The oldest are dropped first. */
const MAX_ADDRESS_GROUPS = 20_000;

/** 64 bits of a hash: two address groups share a count about once in 2^32 groups. */
const HASH_LENGTH = 16;

/** Who asks for an invoice of whom. */
export interface InvoiceRequest {
  /** Key of the recipient, hex. */
  recipient: string;
  /** The payer's IPv4 address, or the /64 of an IPv6 one. */
  addressGroup: string;
  mintUrl: string;
}

/** Permission to create one invoice. */
export interface Admitted {
  /** For the request to the mint. */
  permit: MintPermit;
  /** What the database stores in place of the payer's address group. */
  addressGroupHash: string;
  /** Must be called when the quote is stored, or when there will be none. */
  release(): void;
}

/** Decides whether a payer gets an invoice: three checks, from the cheapest to the dearest. */
export class InvoiceAdmission {
  readonly #limiter: Pick<MintRateLimiter, 'acquire'>;
  readonly #quotes: Pick<Store['quotes'], 'countOpen'>;
  /** 0: no limit. */
  readonly #limits: OpenInvoices;
  readonly #requests: MinuteCounts | null;
  readonly #underWay = new Map<string, number>();
  readonly #hashKey: Buffer;
  readonly #patienceMs: number;
  readonly #clock: Clock;
  readonly #monotonicMs: () => number;

  /**
   * @param parts.secret a secret of the service; the key for hashing address groups is derived from it
   * @param parts.patienceMs how long a request may wait for the mint's rate limit
   */
  constructor(parts: {
    limiter: Pick<MintRateLimiter, 'acquire'>;
    quotes: Pick<Store['quotes'], 'countOpen'>;
    limits: Pick<
      InboundLimits,
      'invoices' | 'openInvoicesPerRecipient' | 'openInvoicesPerAddress' | 'openInvoicesPerPair'
    >;
    secret: string;
    patienceMs: number;
    clock: Clock;
    monotonicMs: () => number;
  }) {
    const { limits } = parts;
    this.#limiter = parts.limiter;
    this.#quotes = parts.quotes;
    this.#limits = {
      ofRecipient: limits.openInvoicesPerRecipient,
      ofAddressGroup: limits.openInvoicesPerAddress,
      ofPair: limits.openInvoicesPerPair,
    };
    this.#requests =
      limits.invoices === 0 ? null : new MinuteCounts(limits.invoices, MAX_ADDRESS_GROUPS);
    this.#hashKey = createHmac('sha256', parts.secret).update('address groups').digest();
    this.#patienceMs = parts.patienceMs;
    this.#clock = parts.clock;
    this.#monotonicMs = parts.monotonicMs;
  }

  /**
   * Admits a request for an invoice, waiting for the mint's rate limit if that is short.
   *
   * @param timer measures how long the mint's rate limit was waited for
   * @throws Refusal if the payer asks too often, too many invoices are open, or the mint's rate limit is reached
   */
  async admit(request: InvoiceRequest, timer: Pick<InvoiceTimer, 'mint'>): Promise<Admitted> {
    const { addressGroup, mintUrl } = request;
    this.#refuseTooManyRequests(addressGroup);

    const pair = { pubkey: request.recipient, addressGroup: this.#hash(addressGroup) };
    const underWay = this.#countUnderWay(pair);
    // First without the database: a burst from one address must not reserve what other payers need.
    this.#refuseTooManyOpen(underWay);
    const release = this.#reserve(pair);
    try {
      // A request that commits meanwhile counts twice, so that concurrent requests of this process never exceed a
      // limit. Each other process may exceed it by the requests that it has under way.
      const stored = await this.#quotes.countOpen(pair, this.#limits, COUNTED_MS, this.#clock());
      this.#refuseTooManyOpen({
        ofRecipient: stored.ofRecipient + underWay.ofRecipient,
        ofAddressGroup: stored.ofAddressGroup + underWay.ofAddressGroup,
        ofPair: stored.ofPair + underWay.ofPair,
      });

      const options = { addressGroup, patienceMs: this.#patienceMs };
      const acquired = await timer.mint(this.#limiter.acquire(mintUrl, 'create', options));
      if (acquired.outcome === 'rate_limited') {
        throw mintRateLimited(acquired.retryAfterMs);
      }
      return { permit: acquired.permit, addressGroupHash: pair.addressGroup, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  #refuseTooManyRequests(addressGroup: string): void {
    const waitMs = this.#requests?.count(addressGroup, this.#monotonicMs()) ?? null;
    if (waitMs !== null) {
      throw tooMany('Too many requests for invoices from this address.', waitMs);
    }
  }

  #refuseTooManyOpen(open: OpenInvoices): void {
    const isFull = (of: keyof OpenInvoices) => this.#limits[of] > 0 && open[of] >= this.#limits[of];
    if (isFull('ofPair')) {
      throw tooMany('You have too many unpaid invoices of this recipient.', RETRY_AFTER_MS);
    }
    if (isFull('ofAddressGroup')) {
      throw tooMany('You have too many unpaid invoices.', RETRY_AFTER_MS);
    }
    if (isFull('ofRecipient')) {
      throw tooMany('This recipient has too many unpaid invoices.', RETRY_AFTER_MS);
    }
  }

  #countUnderWay(pair: Pair): OpenInvoices {
    const [ofRecipient = 0, ofAddressGroup = 0, ofPair = 0] = keysOf(pair).map((key) =>
      this.#underWay.get(key),
    );
    return { ofRecipient, ofAddressGroup, ofPair };
  }

  /** Counts a request as under way until the returned function is called. */
  #reserve(pair: Pair): () => void {
    const add = (difference: 1 | -1) => {
      for (const key of keysOf(pair)) {
        const count = (this.#underWay.get(key) ?? 0) + difference;
        if (count === 0) {
          this.#underWay.delete(key);
        } else {
          this.#underWay.set(key, count);
        }
      }
    };
    add(1);
    return () => add(-1);
  }

  /** The database must not hold addresses: without the key, a hash does not reveal its address. */
  #hash(addressGroup: string): string {
    return createHmac('sha256', this.#hashKey)
      .update(addressGroup)
      .digest('hex')
      .slice(0, HASH_LENGTH);
  }
}

/** A recipient, and the hash of a payer's address group. */
interface Pair {
  pubkey: string;
  addressGroup: string;
}

/** Keys of what is counted, in the order of {@link OpenInvoices}. They differ in length. */
function keysOf({ pubkey, addressGroup }: Pair): string[] {
  return [pubkey, addressGroup, `${pubkey} ${addressGroup}`];
}

/** @param retryAfterMs null: unknown */
export function mintRateLimited(retryAfterMs: number | null): Refusal {
  const { nature, message } = mintTrouble();
  const seconds = retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000));
  return new Refusal(nature, message, seconds);
}
