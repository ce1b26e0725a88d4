import type { Clock } from '../clock.ts';
import { type Db, tryTransaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import { isReservedUsername, parseUsername } from '../recipients/lightning-address.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';
import { decodeToken, encodePaymentRequest, validateToken } from './ecash/cashu-token.ts';
import { hashSecret } from './ecash/proofs.ts';
import { type PurchaseContext, type PurchaseFailureReason, startPurchase } from './purchase.ts';
import { isTokenOfPurchase } from './purchase-store.ts';
import { recordNameChange } from './record-name-change.ts';
import { type ClaimDecision, claimUsername, decideClaim, findUsername } from './username-store.ts';

export interface UsernamePolicy {
  /** 0 if names cost nothing; null if names are not for sale. */
  priceSat: number | null;
  /** The only mint whose ecash is accepted, normalised. */
  mintUrl: string;
  reserved: readonly string[];
  graceMs: number;
  /** Whether only members can be paid, and have names. */
  membersOnly?: boolean;
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
  pubkey: string;
  username: string;
  token: string | null;
  addressGroup: string;
}

export type RegistrationResult =
  | { outcome: 'owned' }
  | { outcome: 'payment_required'; paymentRequest: string; message: string };

/**
 * Gives a key a name. Unless names are free or the key already has the name, the token has to pay for it, and is
 * redeemed only if the key gets the name. A repeated request with the same token has the same result.
 */
export async function registerUsername(
  context: UsernameContext,
  request: RegistrationRequest,
): Promise<RegistrationResult> {
  const { db, policy, clock } = context;
  const { pubkey, token } = request;
  const name = parseUsername(request.username);
  if (name === null) {
    throw new RequestError(
      'name_invalid',
      'A username must have 3 to 64 letters and digits, and must not look like a key (npub1..., nsec1...).',
    );
  }
  // Who cannot be paid has no use for a name.
  const user = await findUserByPubkey(db, pubkey);
  if (user?.block) {
    throw new RequestError('invalid', 'This key cannot have a username here.');
  }
  if (policy.membersOnly && !user?.member) {
    throw new RequestError('not_a_member', 'This server is for members.');
  }
  const claim = decideClaim(await findUsername(db, name), pubkey, clock());
  switch (claim) {
    case 'owned':
      return OWNED;
    case 'buying':
      if (token === null || (await isTokenUsedForName(context, pubkey, name, token))) {
        throw inProgressError('Your purchase of this username is in progress.');
      }
      // If told to repeat the request, the wallet would get 201 later and delete the token, which is unspent.
      throw new RequestError(
        'token_not_used',
        'Your purchase of this username with another token is in progress; this token was not used.',
      );
    case 'reclaimable':
      // If the request that bought the name arrives again after the name was released, it does not undo the release.
      return token !== null && (await isTokenUsedForName(context, pubkey, name, token))
        ? OWNED
        : claimFreeOfCharge(context, pubkey, name);
    case 'free':
    case 'taken':
    case 'reserved': {
      const obstacle = findObstacle(policy, name, claim);
      if (obstacle !== null) {
        const { code, message } = OBSTACLE_ERRORS[obstacle];
        throw new RequestError(code, message);
      }
      // The price is not null here: `findObstacle` returns `not_for_sale` without a price.
      return policy.priceSat
        ? buyUsername(context, request, name, policy.priceSat)
        : claimFreeOfCharge(context, pubkey, name);
    }
  }
}

type NameObstacle = 'not_for_sale' | 'reserved' | 'taken';

/** Returns the name in lower case, and why a key that never had it cannot buy it; null if it can. */
export async function checkUsernameAvailability(
  { db, policy, clock }: UsernameContext,
  username: string,
): Promise<{ name: string | null; obstacle: NameObstacle | 'invalid' | null }> {
  const name = parseUsername(username);
  if (name === null) {
    return { name, obstacle: 'invalid' };
  }
  const claim = decideClaim(await findUsername(db, name), null, clock());
  return { name, obstacle: findObstacle(policy, name, claim) };
}

function findObstacle(
  { priceSat, reserved }: UsernamePolicy,
  name: string,
  claim: ClaimDecision,
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
  return claim === 'free' ? null : 'taken';
}

const OBSTACLE_ERRORS = {
  not_for_sale: { code: 'name_not_for_sale', message: 'Usernames cannot be bought here.' },
  reserved: { code: 'name_reserved', message: 'This username is reserved.' },
  taken: { code: 'name_taken', message: 'This username is already taken.' },
} as const;

const OWNED = { outcome: 'owned' } as const;

async function isTokenUsedForName(
  { db }: UsernameContext,
  pubkey: string,
  name: string,
  token: string,
): Promise<boolean> {
  const decoded = decodeToken(token);
  return (
    decoded.outcome === 'decoded' &&
    (await isTokenOfPurchase(db, pubkey, name, decoded.proofs.map(hashSecret)))
  );
}

async function claimFreeOfCharge(
  { db, policy, clock }: UsernameContext,
  pubkey: string,
  name: string,
): Promise<RegistrationResult> {
  const options = { pubkey, nowMs: clock(), graceMs: policy.graceMs };
  const event = { pubkey, action: 'claim name', atMs: options.nowMs };
  const isClaimed = await tryTransaction(db, (tx) =>
    recordNameChange(tx, event, () => claimUsername(tx, name, options)),
  );
  if (!isClaimed) {
    throw inProgressError(NAME_CONTESTED);
  }
  return OWNED;
}

async function buyUsername(
  context: UsernameContext,
  { pubkey, token, addressGroup }: RegistrationRequest,
  name: string,
  priceSat: number,
): Promise<RegistrationResult> {
  const { purchases, policy, allowHttpMints: allowHttp, clock } = context;
  const { mintUrl } = policy;
  const paymentRequired = (message: string): RegistrationResult => ({
    outcome: 'payment_required',
    paymentRequest: encodePaymentRequest(priceSat, mintUrl),
    message,
  });
  if (token === null) {
    return paymentRequired(`This username costs ${priceSat} sat. Pay the request in X-Cashu.`);
  }
  if (purchases === null) {
    throw new Error('usernames have a price, but there is no treasury secret');
  }
  const decoded = decodeToken(token);
  if (decoded.outcome === 'rejected') {
    return paymentRequired(decoded.reason);
  }
  await requireRestoreSupport(context);
  const keysets = await purchases.keysetCache.getKeysets(mintUrl);
  if (keysets === null) {
    throw mintError();
  }
  const requirements = { mintUrl, allowHttp, priceSat, nowMs: clock(), keysets };
  const payment = await validateToken(decoded, requirements);
  if (payment.outcome === 'rejected') {
    return paymentRequired(payment.reason);
  }
  const order = { pubkey, name, priceSat, mintUrl, addressGroup, proofs: payment.proofs };
  const result = await startPurchase(purchases, order);
  switch (result.outcome) {
    case 'completed':
      return OWNED;
    case 'pending':
      throw inProgressError('Your purchase of this username is in progress.');
    case 'name_not_free':
      throw inProgressError(NAME_CONTESTED);
    case 'token_used':
      return paymentRequired('This token was already used for another purchase.');
    case 'mint_busy':
      throw mintError(result.retryAfterMs);
    case 'failed': {
      const message = TOKEN_FAILURE_MESSAGES[result.reason];
      if (message === undefined) {
        throw mintError();
      }
      return paymentRequired(message);
    }
  }
}

/** The reasons that concern the token. For all others, the mint is to blame. */
const TOKEN_FAILURE_MESSAGES: Partial<Record<PurchaseFailureReason, string>> = {
  fee_exceeds_value: 'The mint’s fee would use up the whole token.',
  spent: 'The token has already been spent.',
  pending: 'The token is being spent elsewhere.',
  keyset_expired: 'The token has expired: the mint no longer accepts its keyset.',
  invalid: 'The mint does not accept the token.',
  outputs_signed: 'The mint does not accept the token.',
  other: 'The mint does not accept the token.',
};

/** Throws if the mint cannot restore ecash (NUT-07, NUT-09), because a lost response would lose the buyer's money. */
async function requireRestoreSupport({ policy, mintInfoCache, log }: UsernameContext) {
  const { mintUrl } = policy;
  const info = await mintInfoCache.get(mintUrl);
  if (info?.supportsRestore) {
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

const NAME_CONTESTED = 'Another request for this username is in progress.';

function inProgressError(message: string): RequestError {
  const advice = 'Repeat the request with the same token in a moment.';
  return new RequestError('purchase_in_progress', `${message} ${advice}`, 3);
}

function mintError(retryAfterMs: number | null = null): RequestError {
  return new RequestError(
    'unavailable',
    'The mint is busy or does not work properly. Your token was not used; try again later.',
    retryAfterMs === null ? null : Math.max(1, Math.ceil(retryAfterMs / 1000)),
  );
}
