import { randomUUID } from 'node:crypto';
import type { Clock } from '../clock.ts';
import { Refusal } from '../errors.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import { parseUsername } from '../recipients/address.ts';
import { notifyAddresses } from '../recipients/recipients.ts';
import type { Store } from '../store.ts';
import { encodePaymentRequest } from './ecash/payment-request.ts';
import { yOf } from './ecash/proofs.ts';
import type { Sealer } from './ecash/seal.ts';
import { secretsOf } from './ecash/token.ts';
import { mintTrouble, type Payment, type ReadPayment } from './read-payment.ts';
import { isReservedUsername } from './reserved-usernames.ts';
import {
  type Settlement,
  type SettlePurchases,
  tokenContext,
  type UndoReason,
} from './settle-purchases.ts';
import { planSwap } from './swap-ecash.ts';
import { claimOf } from './username-claim.ts';

/** The price of names, and which names can be bought. */
export interface UsernameOffer {
  /** 0: names are free. Null: names are not for sale. */
  priceSat: number | null;
  /** Normalised. */
  mintUrl: string;
  /** Reserved names besides the built-in ones, in lower case. */
  reserved: readonly string[];
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
}

/** The result of a request for a name. */
export type PurchaseOutcome =
  | { outcome: 'owned' }
  /** `request` is the Cashu payment request (NUT-18), `message` says what is missing or wrong. */
  | { outcome: 'payment_required'; request: string; message: string };

/** What selling names needs. */
interface TreasuryParts {
  readPayment: Pick<ReadPayment, 'read'>;
  purchases: Pick<SettlePurchases, 'begin' | 'resumeOrWait'>;
  keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>;
  sealer: Sealer;
}

/** How often a request starts again because the name changed concurrently. Beyond it, the client has to retry. */
const MAX_LOOKS = 5;

/**
 * Sells names (spec.md section 4.6). A purchase holds the name and journals the token before it redeems the token, so
 * that neither can be lost. The token of a buyer who does not get the name is not redeemed.
 */
export class PurchaseUsername {
  readonly offer: UsernameOffer;
  readonly #store: Store;
  readonly #treasury: TreasuryParts | null;
  readonly #clock: Clock;

  /** @param parts.treasury null if there is no treasury secret, so that names cannot be sold */
  constructor(parts: {
    offer: UsernameOffer;
    store: Store;
    treasury: TreasuryParts | null;
    clock: Clock;
  }) {
    this.offer = parts.offer;
    this.#store = parts.store;
    this.#treasury = parts.treasury;
    this.#clock = parts.clock;
  }

  /**
   * Gives a key a name if it is free, its own already, or paid for. A repeated request with the same token gets the
   * same response, even if the terms or the mint have changed since.
   *
   * @param pubkey hex
   * @param username as the client wrote it
   * @param token a `cashuA` or `cashuB` token; null if there is none
   * @throws Refusal if the key cannot have the name (invalid, taken), or the outcome is unknown for now (unavailable)
   */
  async purchase(pubkey: string, username: string, token: string | null): Promise<PurchaseOutcome> {
    const name = readName(username);
    await this.#refuseBlocked(pubkey);
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const outcome = await this.#look({ name, pubkey, token, nowMs: this.#clock() });
      if (outcome !== 'changed') {
        return outcome;
      }
    }
    throw underWay();
  }

  /** @returns `changed` if the name changed concurrently, and the request has to start again */
  async #look(wish: Wish): Promise<PurchaseOutcome | 'changed'> {
    const { name, pubkey, nowMs } = wish;
    const stored = await this.#store.usernames.find(name);
    const claim = claimOf(stored, pubkey, nowMs);
    if (claim === 'yours') {
      return { outcome: 'owned' };
    }
    // Before the terms are checked: they may have changed since the token was given.
    const given = await this.#givenFor(wish);
    if (typeof given === 'object') {
      return this.#answer(await this.#requireTreasury().purchases.resumeOrWait(given.open));
    }
    switch (claim) {
      case 'yours_again':
        // A wallet that repeats an old request does not want the name that its user has released since.
        return given === 'this' ? { outcome: 'owned' } : this.#take(wish);
      case 'buying':
        return this.#waitForOther(wish, stored?.purchase ?? null);
      case 'reserved':
        throw reserved();
      case 'taken':
        this.#refuseUnlessForSale(name);
        throw new Refusal('taken', 'This username is already taken.');
      case 'free':
        this.#refuseUnlessForSale(name);
        return given === 'this' && (await this.#isOwned(wish)) ? 'changed' : this.#buy(wish, given);
    }
  }

  #refuseUnlessForSale(name: string): void {
    if (this.offer.priceSat === null) {
      throw new Refusal('invalid', 'Usernames cannot be bought here.');
    }
    if (isReservedUsername(name, this.offer.reserved)) {
      throw reserved();
    }
  }

  /** A blocked recipient cannot be paid, so a name would be useless. */
  async #refuseBlocked(pubkey: string): Promise<void> {
    if ((await this.#store.users.find(pubkey))?.block) {
      throw new Refusal('invalid', 'This key cannot have a username here.');
    }
  }

  /** Finds out whether the proofs of the token paid for this purchase or another one before. */
  async #givenFor({
    token,
    pubkey,
    name,
  }: Wish): Promise<'nothing' | 'this' | 'another' | { open: string }> {
    const secrets = token === null ? null : secretsOf(token);
    if (secrets === null) {
      return 'nothing';
    }
    const ys = secrets.map((secret) => yOf({ secret }));
    const [earlier, ...others] = await this.#store.purchases.findByProofs(ys);
    if (earlier === undefined) {
      return 'nothing';
    }
    if (others.length > 0 || earlier.pubkey !== pubkey || earlier.name !== name) {
      return 'another';
    }
    return earlier.state === 'open' ? { open: earlier.id } : 'this';
  }

  /** Waits for the key's own purchase of the name with another token: this token may not be needed. */
  async #waitForOther({ name, token }: Wish, purchase: string | null): Promise<'changed'> {
    if (purchase !== null) {
      const settlement = await this.#requireTreasury().purchases.resumeOrWait(purchase);
      const isHeldStill = (await this.#store.usernames.find(name))?.purchase === purchase;
      if (settlement?.outcome === 'unsettled' && isHeldStill) {
        throw token === null ? underWay() : underWayWithAnother();
      }
    }
    return 'changed';
  }

  async #take({ name, pubkey, nowMs }: Wish): Promise<PurchaseOutcome | 'changed'> {
    const { graceMs } = this.offer;
    const isTaken = await this.#store.attempt(async (tx) => {
      await notifyAddresses(tx, pubkey);
      return tx.usernames.take(name, { pubkey, nowMs, graceMs });
    });
    return isTaken ? { outcome: 'owned' } : 'changed';
  }

  /** Whether a purchase with these proofs succeeded since the name was read as free, rather than long ago. */
  async #isOwned({ name, pubkey, nowMs }: Wish): Promise<boolean> {
    const claim = claimOf(await this.#store.usernames.find(name), pubkey, nowMs);
    return claim === 'yours' || claim === 'yours_again';
  }

  async #buy(
    wish: Wish,
    given: 'nothing' | 'this' | 'another',
  ): Promise<PurchaseOutcome | 'changed'> {
    const priceSat = this.offer.priceSat ?? 0;
    if (priceSat === 0) {
      return this.#take(wish);
    }
    if (wish.token === null) {
      return this.#paymentRequired(
        `This username costs ${priceSat} sat. Pay the request in X-Cashu.`,
      );
    }
    if (given !== 'nothing') {
      return this.#paymentRequired('This token was given for another purchase already.');
    }
    const reading = await this.#requireTreasury().readPayment.read(wish.token, priceSat);
    return reading.outcome === 'read'
      ? this.#redeem(wish, reading, priceSat)
      : this.#paymentRequired(reading.reason);
  }

  async #redeem(
    { name, pubkey, nowMs }: Wish,
    payment: Payment,
    priceSat: number,
  ): Promise<PurchaseOutcome | 'changed'> {
    const { purchases, keysets, sealer } = this.#requireTreasury();
    const { mintUrl } = this.offer;
    const planned = await planSwap(keysets, mintUrl, payment.proofs);
    if (planned.outcome === 'short') {
      return this.#paymentRequired('The mint’s fee would take all that this token is worth.');
    }
    if (planned.outcome === 'unavailable') {
      throw mintTrouble();
    }
    const id = randomUUID();
    const token = await sealer.seal(tokenContext(id), payment.proofs);
    const open = (leaseHolder: string) =>
      this.#store.attempt(async (tx) => {
        if (!(await tx.usernames.hold(name, { pubkey, purchase: id, nowMs }))) {
          return false;
        }
        await tx.purchases.open({
          id,
          pubkey,
          name,
          priceSat,
          paidSat: payment.faceValueSat,
          mintUrl,
          // The mint may have taken longer than a lease since the name was read.
          createdAtMs: this.#clock(),
          token,
          plan: planned.plan,
          leaseHolder,
        });
        if (!(await tx.treasury.isClaimed(sealer.keyId))) {
          throw new Error('a process with another TREASURY_SECRET uses this database');
        }
        return await tx.purchases.claimProofs(id, payment.proofs.map(yOf));
      });
    return this.#answer(await purchases.begin(id, open));
  }

  /** @param settlement null if the purchase was not written, or another run has settled it */
  #answer(settlement: Settlement | null): PurchaseOutcome | 'changed' {
    switch (settlement?.outcome) {
      case undefined:
        return 'changed';
      case 'done':
        return { outcome: 'owned' };
      case 'unsettled':
        throw underWay();
      case 'undone':
        if (settlement.reason === 'mint_unreachable') {
          throw mintTrouble();
        }
        return this.#paymentRequired(refusalText(settlement.reason));
    }
  }

  /** Asks for a payment, unless names no longer have a price: then the request starts again. */
  #paymentRequired(message: string): PurchaseOutcome | 'changed' {
    const { priceSat, mintUrl } = this.offer;
    if (priceSat === null || priceSat === 0) {
      return 'changed';
    }
    const request = encodePaymentRequest({
      id: randomUUID(),
      amountSat: priceSat,
      mintUrl,
      description: 'Username',
    });
    return { outcome: 'payment_required', request, message };
  }

  #requireTreasury(): TreasuryParts {
    if (this.#treasury === null) {
      throw new Error('there is an open purchase, and no treasury secret to settle it with');
    }
    return this.#treasury;
  }
}

interface Wish {
  name: string;
  pubkey: string;
  token: string | null;
  nowMs: number;
}

function refusalText(reason: UndoReason): string {
  switch (reason) {
    case 'spent':
      return 'The token was spent before.';
    case 'pending':
      return 'The token is being spent elsewhere.';
    default:
      return 'The mint does not accept the token.';
  }
}

function readName(username: string): string {
  const name = parseUsername(username);
  if (name === null) {
    throw new Refusal(
      'invalid',
      'A username has 3 to 64 letters and digits, and is no key (npub1..., nsec1...).',
    );
  }
  return name;
}

function reserved(): Refusal {
  return new Refusal('invalid', 'This username is reserved.');
}

function underWayWithAnother(): Refusal {
  return new Refusal(
    'taken',
    'Your purchase of this username with another token is under way; this token was not used.',
  );
}

function underWay(): Refusal {
  return new Refusal(
    'unavailable',
    'Your purchase of this username is under way. Repeat the request with the same token in a moment.',
  );
}
