import type { Clock } from '../clock.ts';
import { RequestError } from '../errors.ts';
import { parseUsername } from '../recipients/lightning-address.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import type { Store } from '../store.ts';
import { encodePaymentRequest, parseTokenSecrets } from './ecash/cashu-token.ts';
import { computeY } from './ecash/proofs.ts';
import type {
  PurchaseAttemptResult,
  PurchaseFailureReason,
  PurchaseProcessor,
} from './purchase-processor.ts';
import { decideClaim, isReservedUsername } from './username-claim.ts';
import { mintUnavailableError, type PaymentContext, validatePayment } from './validate-payment.ts';

/** The price of usernames, and which names can be bought. */
export interface UsernamePolicy {
  /** 0: names are free. Null: names are not for sale. */
  priceSat: number | null;
  /** Normalised. */
  mintUrl: string;
  /** Reserved names besides the built-in ones, in lower case. */
  reserved: readonly string[];
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
}

export type RegistrationResult =
  | { outcome: 'owned' }
  /** `request` is the Cashu payment request (NUT-18), `message` says what is missing or wrong. */
  | { outcome: 'payment_required'; request: string; message: string };

const FAILURE_MESSAGES: { [reason in PurchaseFailureReason]?: string } = {
  fee_exceeds_value: 'The mint’s fee would use up the whole token.',
  spent: 'The token has already been spent.',
  pending: 'The token is being spent elsewhere.',
};

/** How often a request starts again because the name changed concurrently. After that, the client has to retry. */
const MAX_ATTEMPTS = 5;

interface UsernameRegistrarDeps {
  policy: UsernamePolicy;
  store: Store;
  /** Null without a treasury secret: then names cannot be sold. */
  paidPurchases: { paymentContext: PaymentContext; processor: PurchaseProcessor } | null;
  clock: Clock;
}

/** Sells usernames (spec.md section 4.6). Does not redeem the token of a buyer who does not get the name. */
export class UsernameRegistrar {
  readonly policy: UsernamePolicy;
  readonly #deps: UsernameRegistrarDeps;

  constructor(deps: UsernameRegistrarDeps) {
    this.policy = deps.policy;
    this.#deps = deps;
  }

  /**
   * Gives a key a name that is free of charge, paid for or its own already. A repeated request with the same token has
   * the same result, even if the price or the mint has changed since.
   *
   * @param pubkey hex
   * @param username as the client wrote it
   * @param token a `cashuA` or `cashuB` token; null if the client sent none
   * @throws RequestError if the key cannot have the name, or the outcome is not known yet (`unavailable`)
   */
  async register(
    pubkey: string,
    username: string,
    token: string | null,
  ): Promise<RegistrationResult> {
    const name = parseUsername(username);
    if (name === null) {
      throw new RequestError(
        'invalid',
        'A username must have 3 to 64 letters and digits, and must not look like a key (npub1..., nsec1...).',
      );
    }
    // A blocked recipient cannot be paid, so a name would be useless.
    if ((await this.#deps.store.users.findByPubkey(pubkey))?.block) {
      throw new RequestError('invalid', 'This key cannot have a username here.');
    }
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const result = await this.#attempt({ name, pubkey, token, nowMs: this.#deps.clock() });
      if (result !== 'changed') {
        return result;
      }
    }
    throw purchasePendingError();
  }

  /** @returns `changed` if the name changed concurrently and the request has to start again */
  async #attempt(request: RegistrationRequest): Promise<RegistrationResult | 'changed'> {
    const { name, pubkey, nowMs } = request;
    // Before the name is read: a purchase that has completed has assigned its name. Before the price and the mint are
    // checked: they may have changed since the client sent the token first.
    const earlierUse = await this.#findEarlierUse(request);
    const stored = await this.#deps.store.usernames.find(name);
    const claim = decideClaim(stored, pubkey, nowMs);
    if (claim === 'owned') {
      return { outcome: 'owned' };
    }
    if (typeof earlierUse === 'object') {
      const { processor } = this.#requirePaidPurchases();
      return this.#toRegistrationResult(await processor.resumeOrWait(earlierUse.openPurchaseId));
    }
    switch (claim) {
      case 'reclaimable':
        // A client that repeats an old request does not want a name back that its user has released since.
        return earlierUse === 'same_purchase' ? { outcome: 'owned' } : this.#assign(request);
      case 'buying':
        return this.#waitForOpenPurchase(request, stored?.purchaseId ?? null);
      case 'reserved':
        throw reservedError();
      case 'taken':
        this.#assertForSale(name);
        throw new RequestError('conflict', 'This username is already taken.');
      case 'free':
        this.#assertForSale(name);
        return this.#acquireFreeName(request, earlierUse);
    }
  }

  #assertForSale(name: string): void {
    if (this.policy.priceSat === null) {
      throw new RequestError('invalid', 'Usernames cannot be bought here.');
    }
    if (isReservedUsername(name, this.policy.reserved)) {
      throw reservedError();
    }
  }

  /** Finds the earlier purchases that the proofs of the token paid for. */
  async #findEarlierUse({ token, pubkey, name }: RegistrationRequest): Promise<EarlierUse> {
    const secrets = token === null ? null : parseTokenSecrets(token);
    if (secrets === null) {
      return 'none';
    }
    const ys = secrets.map((secret) => computeY({ secret }));
    const [earlier, ...others] = await this.#deps.store.purchases.findByProofs(ys);
    if (earlier === undefined) {
      return 'none';
    }
    if (others.length > 0 || earlier.pubkey !== pubkey || earlier.name !== name) {
      return 'other_purchase';
    }
    return earlier.state === 'open' ? { openPurchaseId: earlier.id } : 'same_purchase';
  }

  /** Waits for the key's own purchase of the name with another token: this token may not be needed. */
  async #waitForOpenPurchase(
    { name, token }: RegistrationRequest,
    purchaseId: string | null,
  ): Promise<'changed'> {
    if (purchaseId !== null) {
      const result = await this.#requirePaidPurchases().processor.resumeOrWait(purchaseId);
      const isStillHeld = (await this.#deps.store.usernames.find(name))?.purchaseId === purchaseId;
      if (result?.outcome === 'pending' && isStillHeld) {
        throw token === null
          ? purchasePendingError()
          : new RequestError(
              'conflict',
              'Your purchase of this username with another token is in progress; this token was not used.',
            );
      }
    }
    return 'changed';
  }

  async #assign(request: RegistrationRequest): Promise<RegistrationResult | 'changed'> {
    const { graceMs } = this.policy;
    const isAssigned = await this.#deps.store.tryTransaction(async (tx) => {
      await notifyRecipientChange(tx, request.pubkey);
      return tx.usernames.assign(request.name, { ...request, graceMs });
    });
    return isAssigned ? { outcome: 'owned' } : 'changed';
  }

  async #acquireFreeName(
    request: RegistrationRequest,
    earlierUse: EarlierUse,
  ): Promise<RegistrationResult | 'changed'> {
    const { name, pubkey, token, nowMs } = request;
    const { priceSat, mintUrl } = this.policy;
    if (!priceSat) {
      return this.#assign(request);
    }
    if (token === null) {
      const message = `This username costs ${priceSat} sat. Pay the request in X-Cashu.`;
      return this.#requirePayment(message);
    }
    if (earlierUse !== 'none') {
      return this.#requirePayment('This token was already used for another purchase.');
    }
    const { paymentContext, processor } = this.#requirePaidPurchases();
    const payment = await validatePayment(paymentContext, token, priceSat);
    if (payment.outcome === 'rejected') {
      return this.#requirePayment(payment.reason);
    }
    const order = { name, pubkey, nowMs, priceSat, mintUrl, payment };
    return this.#toRegistrationResult(await processor.start(order));
  }

  /** @param result null if the purchase was not started, or another run has closed it */
  #toRegistrationResult(result: PurchaseAttemptResult | null): RegistrationResult | 'changed' {
    switch (result?.outcome) {
      case undefined:
        return 'changed';
      case 'completed':
        return { outcome: 'owned' };
      case 'pending':
        throw purchasePendingError();
      case 'failed':
        if (result.reason === 'mint_unreachable') {
          throw mintUnavailableError();
        }
        return this.#requirePayment(
          FAILURE_MESSAGES[result.reason] ?? 'The mint does not accept the token.',
        );
    }
  }

  /** Requests a payment. If names no longer have a price, the request starts again instead. */
  #requirePayment(message: string): RegistrationResult | 'changed' {
    const { priceSat, mintUrl } = this.policy;
    if (!priceSat) {
      return 'changed';
    }
    const request = encodePaymentRequest(priceSat, mintUrl);
    return { outcome: 'payment_required', request, message };
  }

  #requirePaidPurchases() {
    const { paidPurchases } = this.#deps;
    if (paidPurchases === null) {
      throw new Error('there is an open purchase, but no treasury secret to complete it with');
    }
    return paidPurchases;
  }
}

interface RegistrationRequest {
  name: string;
  pubkey: string;
  token: string | null;
  nowMs: number;
}

type EarlierUse = 'none' | 'same_purchase' | 'other_purchase' | { openPurchaseId: string };

function reservedError(): RequestError {
  return new RequestError('invalid', 'This username is reserved.');
}

function purchasePendingError(): RequestError {
  return new RequestError(
    'unavailable',
    'Your purchase of this username is in progress. Repeat the request with the same token in a moment.',
  );
}
