import type { Clock } from '../clock.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { MintInfoCache } from '../mints/mint-cache.ts';
import { isReservedUsername, parseUsername } from '../recipients/lightning-address.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';
import {
  type DecodedToken,
  decodeToken,
  encodePaymentRequest,
  type TokenRejection,
  validateToken,
} from './ecash/cashu-token.ts';
import type { KeysetCache } from './ecash/keyset-cache.ts';
import { REPEAT_AFTER_SECONDS } from './limits.ts';
import {
  type PurchaseContext,
  type PurchaseFailureReason,
  type PurchaseOrder,
  startPurchase,
} from './purchase.ts';
import { hasPaidForName } from './purchase-store.ts';
import { decideClaim, resolveAvailability } from './username-availability.ts';
import { claimUsername, findUsername } from './username-store.ts';

/** The price of usernames, and which names can be bought. */
export interface UsernamePolicy {
  /** 0 if names cost nothing; null if names are not for sale. */
  priceSat: number | null;
  /** The only mint whose ecash is accepted, normalised. */
  mintUrl: string;
  /** The operator's reserved names, in lower case. The built-in reserved names are separate. */
  reserved: readonly string[];
  /** How long a released name stays reserved for its previous owner. */
  graceMs: number;
}

export interface UsernameContext {
  db: Db;
  policy: UsernamePolicy;
  mintInfoCache: MintInfoCache;
  allowHttpMints: boolean;
  /** Null without a treasury secret, which selling names requires. */
  purchases: PurchaseContext | null;
  clock: Clock;
  log: Logger;
}

export interface RegistrationRequest {
  /** Hex. */
  pubkey: string;
  /** As the client wrote it. */
  username: string;
  /** A `cashuA` or `cashuB` token; null if the client sent none. */
  token: string | null;
  /** See {@link PurchaseOrder}. */
  addressGroup: string;
}

export type RegistrationResult =
  | { outcome: 'owned' }
  /** `request` is the Cashu payment request (NUT-18), `message` says what is missing or wrong. */
  | { outcome: 'payment_required'; request: string; message: string };

/**
 * Gives a key a name. Unless names are free or the key already has the name, the token has to pay for it, and is
 * redeemed only if the key gets the name. A repeated request with the same token has the same result.
 *
 * @throws RequestError if the key cannot have the name, or (`purchase_in_progress`, `token_not_used`) if the outcome of
 *   its purchase is not known yet
 */
export async function registerUsername(
  context: UsernameContext,
  { pubkey, username, token, addressGroup }: RegistrationRequest,
): Promise<RegistrationResult> {
  const { db, policy, clock } = context;
  const name = parseUsername(username);
  if (name === null) {
    throw new RequestError(
      'name_invalid',
      'A username must have 3 to 64 letters and digits, and must not look like a key (npub1..., nsec1...).',
    );
  }
  // A blocked recipient cannot be paid, so a name would be useless.
  if ((await findUserByPubkey(db, pubkey))?.block) {
    throw new RequestError('invalid', 'This key cannot have a username here.');
  }
  const claim = decideClaim(await findUsername(db, name), pubkey, clock());
  switch (claim) {
    case 'owned':
      return OWNED;
    case 'buying':
      // A wallet that repeats the request with another token would later take 201 as a sign that it was spent.
      throw token === null || (await isPayment(context, { pubkey, name, token }))
        ? inProgressError('Your purchase of this username is in progress.')
        : new RequestError(
            'token_not_used',
            'Your purchase of this username with another token is in progress; this token was not used.',
          );
    case 'reclaimable':
      // Repeating the request that bought a name must not reclaim the name after its user has released it.
      return token !== null && (await isPayment(context, { pubkey, name, token }))
        ? OWNED
        : claimFreeOfCharge(context, pubkey, name);
    case 'free':
    case 'taken':
    case 'reserved': {
      const obstacle = findObstacle(policy, name, claim);
      if (obstacle !== null) {
        throw new RequestError(...OBSTACLE_ERRORS[obstacle]);
      }
      return policy.priceSat
        ? buyUsername(context, { pubkey, name, token, addressGroup, priceSat: policy.priceSat })
        : claimFreeOfCharge(context, pubkey, name);
    }
  }
}

/** Why a key that has no claim to a name cannot buy it. */
type NameObstacle = 'not_for_sale' | 'reserved' | 'taken';

/**
 * Finds out whether a key that has no claim to a name can buy it.
 *
 * @param username as the client wrote it
 * @returns the name in lower case, or null if it is invalid; and why it cannot be bought, or null if it can
 */
export async function checkUsernameAvailability(
  { db, policy, clock }: UsernameContext,
  username: string,
): Promise<{ name: string; obstacle: NameObstacle | null } | { name: null; obstacle: 'invalid' }> {
  const name = parseUsername(username);
  if (name === null) {
    return { name, obstacle: 'invalid' };
  }
  const availability = resolveAvailability(await findUsername(db, name), clock());
  const isUnclaimed = availability === 'free' || availability === 'reserved';
  return { name, obstacle: findObstacle(policy, name, isUnclaimed ? availability : 'taken') };
}

function findObstacle(
  { priceSat, reserved }: UsernamePolicy,
  name: string,
  claim: 'free' | 'taken' | 'reserved',
): NameObstacle | null {
  if (claim === 'reserved') {
    return 'reserved';
  }
  if (priceSat === null) {
    return 'not_for_sale';
  }
  if (isReservedUsername(name, reserved)) {
    return 'reserved';
  }
  return claim === 'taken' ? 'taken' : null;
}

const OBSTACLE_ERRORS: Record<NameObstacle, ConstructorParameters<typeof RequestError>> = {
  not_for_sale: ['name_not_for_sale', 'Usernames cannot be bought here.'],
  reserved: ['name_reserved', 'This username is reserved.'],
  taken: ['name_taken', 'This username is already taken.'],
};

const OWNED = { outcome: 'owned' } as const;

/** Whether the token pays or paid for the name of this key. */
async function isPayment(
  { db }: UsernameContext,
  { pubkey, name, token }: { pubkey: string; name: string; token: string },
): Promise<boolean> {
  const decoded = decodeToken(token);
  return (
    decoded.outcome === 'decoded' &&
    (await hasPaidForName(db, { pubkey, name, secretHashes: decoded.secretHashes }))
  );
}

async function claimFreeOfCharge(
  { db, policy, clock, log }: UsernameContext,
  pubkey: string,
  name: string,
): Promise<RegistrationResult> {
  const claim = { pubkey, nowMs: clock(), graceMs: policy.graceMs };
  const isClaimed = await tryTransaction(db, async (tx) => {
    await notifyRecipientChange(tx, pubkey);
    return claimUsername(tx, name, claim);
  });
  if (!isClaimed) {
    throw nameChangedError();
  }
  log.info({ event: 'username_assigned', name, pubkey }, 'user has got a username');
  return OWNED;
}

async function buyUsername(
  context: UsernameContext,
  order: Omit<RegistrationRequest, 'username'> & { name: string; priceSat: number },
): Promise<RegistrationResult> {
  const { pubkey, name, token, addressGroup, priceSat } = order;
  const { mintUrl } = context.policy;
  const requirePayment = (message: string): RegistrationResult => ({
    outcome: 'payment_required',
    request: encodePaymentRequest(priceSat, mintUrl),
    message,
  });
  if (token === null) {
    return requirePayment(`This username costs ${priceSat} sat. Pay the request in X-Cashu.`);
  }
  const { purchases } = context;
  if (purchases === null) {
    throw new Error('usernames have a price, but there is no treasury secret');
  }
  const decoded = decodeToken(token);
  const payment =
    decoded.outcome === 'rejected'
      ? decoded
      : await validatePayment(context, purchases.keysetCache, decoded, priceSat);
  if ('reason' in payment) {
    return requirePayment(payment.reason);
  }
  const result = await startPurchase(purchases, {
    pubkey,
    name,
    priceSat,
    mintUrl,
    addressGroup,
    payment,
  });
  switch (result.outcome) {
    case 'completed':
      return OWNED;
    case 'pending':
      throw inProgressError('Your purchase of this username is in progress.');
    case 'name_not_free':
      throw nameChangedError();
    case 'token_used':
      return requirePayment('This token was already used for another purchase.');
    case 'mint_busy':
      throw mintError(result.retryAfterMs);
    case 'failed': {
      const message = TOKEN_FAILURE_MESSAGES[result.reason];
      if (message === null) {
        throw mintError();
      }
      return requirePayment(message);
    }
  }
}

/** What is wrong with the token; null if the mint is to blame. */
const TOKEN_FAILURE_MESSAGES: Record<PurchaseFailureReason, string | null> = {
  fee_exceeds_value: 'The mint’s fee would use up the whole token.',
  spent: 'The token has already been spent.',
  pending: 'The token is being spent elsewhere.',
  keyset_expired: 'The token has expired: the mint no longer accepts its keyset.',
  invalid: 'The mint does not accept the token.',
  outputs_signed: 'The mint does not accept the token.',
  other: 'The mint does not accept the token.',
  // The mint seems to apply other keysets or fees than it lists.
  keyset_inactive: null,
  unbalanced: null,
  mint_unreachable: null,
  no_response: null,
};

/**
 * Checks whether a token pays for a username, as far as that is possible without redeeming it.
 *
 * @throws RequestError (`unavailable`) if the mint does not respond, or cannot restore ecash
 */
async function validatePayment(
  context: UsernameContext,
  keysetCache: KeysetCache,
  token: DecodedToken,
  priceSat: number,
): Promise<PurchaseOrder['payment'] | TokenRejection> {
  const { policy, allowHttpMints: allowHttp, clock } = context;
  const { mintUrl } = policy;
  const requirements = { mintUrl, allowHttp, priceSat, nowMs: clock() };
  await requireRestoreSupport(context);
  const keysets = await keysetCache.getKeysets(mintUrl);
  if (keysets === null) {
    throw mintError();
  }
  let result = await validateToken(token, { ...requirements, keysets });
  if (result.outcome === 'unknown_keyset') {
    const refreshedKeysets = (await keysetCache.refreshKeysets(mintUrl)) ?? keysets;
    result = await validateToken(token, { ...requirements, keysets: refreshedKeysets });
  }
  return result.outcome === 'valid'
    ? { ...result, secretHashes: token.secretHashes }
    : { outcome: 'rejected', reason: result.reason };
}

/** Throws if the mint cannot restore ecash (NUT-07, NUT-09), because a lost response would lose the buyer's money. */
async function requireRestoreSupport(context: UsernameContext): Promise<void> {
  const { policy, mintInfoCache, log } = context;
  const { mintUrl } = policy;
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
  throw mintError();
}

function nameChangedError(): RequestError {
  return inProgressError('Another request for this username is in progress.');
}

function inProgressError(message: string): RequestError {
  const advice = 'Repeat the request with the same token in a moment.';
  return new RequestError('purchase_in_progress', `${message} ${advice}`, REPEAT_AFTER_SECONDS);
}

/** @param retryAfterMs null: unknown */
function mintError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The mint is busy or does not work properly. Your token was not used; try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
