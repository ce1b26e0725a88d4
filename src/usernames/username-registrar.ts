import type { Clock } from '../clock.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import type { MintInfoCache } from '../mints/mint-cache.ts';
import { isReservedUsername, parseUsername } from '../recipients/lightning-address.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';
import {
  type DecodedToken,
  decodeToken,
  encodePaymentRequest,
  type TokenRejection,
  type TokenValidationResult,
  validateToken,
} from './ecash/cashu-token.ts';
import { hashSecret } from './ecash/proofs.ts';
import type {
  PurchaseAttemptResult,
  PurchaseFailureReason,
  PurchaseProcessor,
} from './purchase-processor.ts';
import { countPurchasesByState, findPurchasesByProofs } from './purchase-store.ts';
import { type ClaimDecision, decideClaim, resolveAvailability } from './username-availability.ts';
import { claimUsername, findUsername } from './username-store.ts';

/** The price of usernames, and which names can be bought. */
export interface UsernamePolicy {
  /** 0 if names cost nothing; null if names are not for sale. */
  priceSat: number | null;
  /** Normalised. */
  mintUrl: string;
  /** The operator's reserved names, in lower case. The built-in reserved names are separate. */
  reserved: readonly string[];
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
}

type RegistrationResult =
  | { outcome: 'owned' }
  /** `request` is the Cashu payment request (NUT-18), `message` says what is missing or wrong. */
  | { outcome: 'payment_required'; request: string; message: string };

/** Why a key that has no claim to a name cannot buy it. */
type NameObstacle = 'not_for_sale' | 'reserved' | 'taken';

const OBSTACLE_ERRORS: Record<NameObstacle, ConstructorParameters<typeof RequestError>> = {
  not_for_sale: ['name_not_for_sale', 'Usernames cannot be bought here.'],
  reserved: ['name_reserved', 'This username is reserved.'],
  taken: ['name_taken', 'This username is already taken.'],
};

const FAILURE_MESSAGES: { [reason in PurchaseFailureReason]?: string } = {
  fee_exceeds_value: 'The mint’s fee would use up the whole token.',
  spent: 'The token has already been spent.',
  pending: 'The token is being spent elsewhere.',
  keyset_expired: 'The token has expired: the mint no longer accepts its keyset.',
};

/** Attempts if the name keeps changing concurrently. After these, the client has to retry. */
const MAX_ATTEMPTS = 5;

interface UsernameRegistrarDeps {
  policy: UsernamePolicy;
  db: Db;
  /** Null without a treasury secret, which selling names requires. */
  paidPurchases: { paymentContext: PaymentContext; processor: PurchaseProcessor } | null;
  clock: Clock;
  log: Pick<Logger, 'info'>;
}

interface RegistrationRequest {
  name: string;
  pubkey: string;
  token: string | null;
  addressGroup: string;
  nowMs: number;
}

/** A token that may be needed, and what its proofs paid for before this request. */
interface PresentedToken {
  decoded: DecodedToken | TokenRejection;
  earlierUse: EarlierUse;
}

type EarlierUse = 'none' | 'same_purchase' | 'other_purchase' | { openPurchaseId: string };

/** Sells usernames. Redeems a token only if its buyer gets the name. */
export class UsernameRegistrar {
  readonly policy: UsernamePolicy;
  readonly #deps: UsernameRegistrarDeps;

  constructor(deps: UsernameRegistrarDeps) {
    this.policy = deps.policy;
    this.#deps = deps;
  }

  /**
   * Finds out whether a key that has no claim to a name can buy it.
   *
   * @param username as the client wrote it
   * @returns the name in lower case, or null if it is invalid; and why it cannot be bought, or null if it can
   */
  async checkAvailability(
    username: string,
  ): Promise<
    { name: string; obstacle: NameObstacle | null } | { name: null; obstacle: 'invalid' }
  > {
    const name = parseUsername(username);
    if (name === null) {
      return { name, obstacle: 'invalid' };
    }
    const { db, clock } = this.#deps;
    const availability = resolveAvailability(await findUsername(db, name), clock());
    const isUnclaimed = availability === 'free' || availability === 'reserved';
    return { name, obstacle: this.#findObstacle(name, isUnclaimed ? availability : 'taken') };
  }

  /**
   * Gives a key a name. Unless names are free or the key already owns the name, the token has to pay for it. A
   * repeated request with the same token has the same result, even if the price or the mint has changed.
   *
   * @param pubkey hex
   * @param username as the client wrote it
   * @param token a `cashuA` or `cashuB` token; null if the client sent none
   * @param buyer.addressGroup the prefix of the buyer's address in which clients take turns
   * @throws RequestError if the key cannot have the name, or (`unavailable`) if the outcome is not known yet
   */
  async register(
    pubkey: string,
    username: string,
    token: string | null,
    { addressGroup }: { addressGroup: string },
  ): Promise<RegistrationResult> {
    const name = parseUsername(username);
    if (name === null) {
      throw new RequestError(
        'name_invalid',
        'A username must have 3 to 64 letters and digits, and must not look like a key (npub1..., nsec1...).',
      );
    }
    // A blocked recipient cannot be paid, so a name would be useless.
    if ((await findUserByPubkey(this.#deps.db, pubkey))?.block) {
      throw new RequestError('invalid', 'This key cannot have a username here.');
    }
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const nowMs = this.#deps.clock();
      const result = await this.#attempt({ name, pubkey, token, addressGroup, nowMs });
      if (result !== 'changed') {
        return result;
      }
    }
    throw purchasePendingError();
  }

  /** @returns `changed` if the name changed concurrently, so that another attempt is needed */
  async #attempt(request: RegistrationRequest): Promise<RegistrationResult | 'changed'> {
    const { name, pubkey, token, nowMs } = request;
    let stored = await findUsername(this.#deps.db, name);
    let claim = decideClaim(stored, pubkey, nowMs);
    let presentedToken: PresentedToken | null = null;
    if (token !== null && (await this.#isTokenNeeded(claim, request))) {
      const decoded = await decodeToken(token);
      presentedToken = { decoded, earlierUse: await this.#findEarlierUse(decoded, request) };
      // Read again, because the purchase with this token may have completed in the meantime.
      stored = await findUsername(this.#deps.db, name);
      claim = decideClaim(stored, pubkey, nowMs);
    }
    const earlierUse = presentedToken?.earlierUse ?? 'none';
    if (claim === 'owned') {
      return { outcome: 'owned' };
    }
    if (typeof earlierUse === 'object') {
      const { processor } = this.#requirePaidPurchases();
      return this.#toRegistrationResult(await processor.resumeOrWait(earlierUse.openPurchaseId));
    }
    switch (claim) {
      case 'reclaimable':
        // Repeating the request that bought a name must not reclaim the name after its user has released it.
        return earlierUse === 'same_purchase' ? { outcome: 'owned' } : this.#assign(request);
      case 'buying':
        return this.#waitForOpenPurchase(request, stored?.purchaseId ?? null);
      case 'free':
      case 'taken':
      case 'reserved': {
        const obstacle = this.#findObstacle(name, claim);
        if (obstacle !== null) {
          throw new RequestError(...OBSTACLE_ERRORS[obstacle]);
        }
        return this.#acquireFreeName(request, presentedToken);
      }
    }
  }

  #findObstacle(name: string, claim: 'free' | 'taken' | 'reserved'): NameObstacle | null {
    if (claim === 'reserved') {
      return 'reserved';
    }
    if (this.policy.priceSat === null) {
      return 'not_for_sale';
    }
    if (isReservedUsername(name, this.policy.reserved)) {
      return 'reserved';
    }
    return claim === 'taken' ? 'taken' : null;
  }

  /**
   * Whether the token can change the result: it can buy the name, or may have bought it before. Decoding a token that
   * is not needed would only cost time.
   */
  async #isTokenNeeded(
    claim: ClaimDecision,
    { name, pubkey }: RegistrationRequest,
  ): Promise<boolean> {
    switch (claim) {
      case 'free':
        return Boolean(this.policy.priceSat) && this.#findObstacle(name, claim) === null;
      case 'buying':
        return true;
      case 'reclaimable':
        return (await countPurchasesByState(this.#deps.db, pubkey)).completed > 0;
      case 'owned':
      case 'taken':
      case 'reserved':
        return false;
    }
  }

  /** Finds out which purchases the proofs of the token paid for. */
  async #findEarlierUse(
    decoded: DecodedToken | TokenRejection,
    { pubkey, name }: RegistrationRequest,
  ): Promise<EarlierUse> {
    if (decoded.outcome === 'rejected') {
      return 'none';
    }
    const hashes = decoded.proofs.map(hashSecret);
    const [purchase, ...morePurchases] = await findPurchasesByProofs(this.#deps.db, hashes);
    if (purchase === undefined) {
      return 'none';
    }
    if (morePurchases.length > 0 || purchase.pubkey !== pubkey || purchase.name !== name) {
      return 'other_purchase';
    }
    return purchase.state === 'open' ? { openPurchaseId: purchase.id } : 'same_purchase';
  }

  /** Waits for the key's purchase of the name with another token, because this token may not be needed. */
  async #waitForOpenPurchase(
    { name, token }: RegistrationRequest,
    purchaseId: string | null,
  ): Promise<'changed'> {
    if (purchaseId !== null) {
      const result = await this.#requirePaidPurchases().processor.resumeOrWait(purchaseId);
      const isStillHeld = (await findUsername(this.#deps.db, name))?.purchaseId === purchaseId;
      if (result?.outcome === 'pending' && isStillHeld) {
        throw token === null
          ? purchasePendingError()
          : new RequestError(
              'purchase_with_other_token',
              'Your purchase of this username with another token is in progress; this token was not used.',
            );
      }
    }
    return 'changed';
  }

  async #assign(request: RegistrationRequest): Promise<RegistrationResult | 'changed'> {
    const { graceMs } = this.policy;
    const isAssigned = await tryTransaction(this.#deps.db, async (tx) => {
      await notifyRecipientChange(tx, request.pubkey);
      return claimUsername(tx, request.name, { ...request, graceMs });
    });
    if (!isAssigned) {
      return 'changed';
    }
    const { name, pubkey } = request;
    this.#deps.log.info({ event: 'username_assigned', name, pubkey }, 'user has got a username');
    return { outcome: 'owned' };
  }

  async #acquireFreeName(
    request: RegistrationRequest,
    token: PresentedToken | null,
  ): Promise<RegistrationResult | 'changed'> {
    const { name, pubkey, addressGroup, nowMs } = request;
    const { priceSat, mintUrl } = this.policy;
    if (!priceSat) {
      return this.#assign(request);
    }
    if (token === null) {
      const message = `This username costs ${priceSat} sat. Pay the request in X-Cashu.`;
      return this.#requirePayment(message);
    }
    const { decoded, earlierUse } = token;
    if (decoded.outcome === 'rejected') {
      return this.#requirePayment(decoded.reason);
    }
    if (earlierUse !== 'none') {
      return this.#requirePayment('This token was already used for another purchase.');
    }
    const { paymentContext, processor } = this.#requirePaidPurchases();
    const payment = await validatePayment(paymentContext, decoded, { priceSat, nowMs });
    if (payment.outcome === 'rejected') {
      return this.#requirePayment(payment.reason);
    }
    const order = { name, pubkey, addressGroup, nowMs, priceSat, mintUrl, payment };
    const result = await processor.start(order);
    if (result?.outcome === 'mint_busy') {
      throw paymentMintError(result.retryAfterMs);
    }
    return this.#toRegistrationResult(result);
  }

  /** @param result null if the purchase was not started or another run has closed it */
  #toRegistrationResult(result: PurchaseAttemptResult | null): RegistrationResult | 'changed' {
    switch (result?.outcome) {
      case undefined:
        return 'changed';
      case 'completed':
        return { outcome: 'owned' };
      case 'pending':
        throw purchasePendingError();
      case 'failed':
        if (result.reason === 'mint_unreachable' || result.reason === 'no_response') {
          throw paymentMintError();
        }
        return this.#requirePayment(
          FAILURE_MESSAGES[result.reason] ?? 'The mint does not accept the token.',
        );
    }
  }

  /** Requests a payment. Returns `changed` if names have no price any more. */
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

function purchasePendingError(): RequestError {
  return new RequestError(
    'purchase_in_progress',
    'Your purchase of this username is in progress. Repeat the request with the same token in a moment.',
  );
}

interface PaymentContext {
  /** The only mint whose ecash is accepted, normalised. */
  mintUrl: string;
  mintInfoCache: MintInfoCache;
  keysetCache: KeysetCache;
  allowHttpMints: boolean;
  log: Logger;
}

/**
 * Checks whether a token pays for a username, as far as that is possible without redeeming it. The reason for a
 * rejection is one sentence for the client.
 *
 * @throws RequestError (`unavailable`) if the mint does not respond, or cannot restore ecash
 */
async function validatePayment(
  context: PaymentContext,
  token: DecodedToken,
  order: { priceSat: number; nowMs: number },
): Promise<Exclude<TokenValidationResult, { outcome: 'unknown_keyset' }>> {
  const { mintUrl, allowHttpMints: allowHttp, keysetCache } = context;
  await requireRestoreSupport(context);
  const keysets = await keysetCache.getKeysets(mintUrl);
  if (keysets === null) {
    throw paymentMintError();
  }
  const requirements = { mintUrl, allowHttp, ...order };
  let result = await validateToken(token, { ...requirements, keysets });
  if (result.outcome === 'unknown_keyset') {
    const refreshedKeysets = (await keysetCache.refreshKeysets(mintUrl)) ?? keysets;
    result = await validateToken(token, { ...requirements, keysets: refreshedKeysets });
  }
  return result.outcome === 'valid' ? result : { outcome: 'rejected', reason: result.reason };
}

/** Throws if the mint cannot restore ecash (NUT-07, NUT-09), because a lost response would lose the buyer's money. */
async function requireRestoreSupport(context: PaymentContext): Promise<void> {
  const { mintUrl, mintInfoCache, log } = context;
  const cached = await mintInfoCache.get(mintUrl);
  const info = cached?.supportsRestore === true ? cached : await mintInfoCache.refresh(mintUrl);
  if (info?.supportsRestore === true) {
    return;
  }
  if (info !== null) {
    log.error(
      { event: 'username_mint_unsuitable', mintUrl },
      'the mint for username payments does not support NUT-07 and NUT-09; usernames cannot be sold',
    );
  }
  throw paymentMintError();
}

/** @param retryAfterMs null: unknown */
function paymentMintError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The mint is not working properly. Your token was not used; try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
