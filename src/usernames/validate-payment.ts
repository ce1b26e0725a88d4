import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { RequestError } from '../errors.ts';
import type { Logger } from '../log.ts';
import type { Proof } from '../mints/ecash.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import { parseToken, type TokenParseResult } from './ecash/cashu-token.ts';
import { hasInvalidDleq } from './ecash/proofs.ts';

export interface PaymentContext {
  /** The only mint whose ecash is accepted, normalised. */
  mintUrl: string;
  mintInfoCache: MintInfoCache;
  keysetCache: KeysetCache;
  allowHttpMints: boolean;
  log: Logger;
}

/**
 * Checks whether a token (NUT-00) pays for a username, as far as possible without redeeming it. The reason of a
 * rejection is one sentence for the client.
 *
 * @param priceSat the minimum face value; the operator pays the mint's fee
 * @throws RequestError (unavailable) if the mint does not provide what the checks need
 */
export async function validatePayment(
  context: PaymentContext,
  token: string,
  priceSat: number,
): Promise<Exclude<TokenParseResult, { outcome: 'unknown_keyset' }>> {
  const { mintUrl, allowHttpMints: allowHttp, keysetCache } = context;
  await requireRestoreSupport(context);
  const keysets = await keysetCache.getKeysets(mintUrl);
  if (keysets === null) {
    throw mintUnavailableError();
  }
  let parsed = parseToken(token, { mintUrl, allowHttp, keysets });
  if (parsed.outcome === 'unknown_keyset') {
    const refreshedKeysets = (await keysetCache.refreshKeysets(mintUrl)) ?? keysets;
    parsed = parseToken(token, { mintUrl, allowHttp, keysets: refreshedKeysets });
  }
  if (parsed.outcome !== 'read') {
    return { outcome: 'rejected', reason: parsed.reason };
  }
  if (parsed.faceValueSat < priceSat) {
    const reason = `The token is worth ${parsed.faceValueSat} sat; the username costs ${priceSat} sat.`;
    return { outcome: 'rejected', reason };
  }
  return (await hasForgedProof(context, parsed.proofs))
    ? { outcome: 'rejected', reason: 'The token was not signed by this mint.' }
    : parsed;
}

/** If the mint could not restore ecash (NUT-07, NUT-09), a lost response would lose the buyer's money. */
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
  throw mintUnavailableError();
}

/** Checks the DLEQ proofs that the token contains (NUT-12). Each takes milliseconds, so other work runs in between. */
async function hasForgedProof(
  { mintUrl, keysetCache }: PaymentContext,
  proofs: readonly Proof[],
): Promise<boolean> {
  for (const proof of proofs.filter(({ dleq }) => dleq !== undefined)) {
    const keys = await keysetCache.getKeys(mintUrl, proof.id);
    if (keys === null) {
      throw mintUnavailableError();
    }
    if (hasInvalidDleq(proof, keys)) {
      return true;
    }
    await yieldToEventLoop();
  }
  return false;
}

export function mintUnavailableError(): RequestError {
  return new RequestError(
    'unavailable',
    'The mint is not working properly. Your token was not used; try again later.',
  );
}
