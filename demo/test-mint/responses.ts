import type { TestMintQuote } from './quotes.ts';
import type { TestMintSwitches } from './switches.ts';

/**
 * Returns a quote as the mint sends it (NUT-04, NUT-23).
 *
 * @param stage whether the response is to the creation of the quote; Nutshell omits fields in later responses
 */
export function quoteResponse(
  quote: TestMintQuote,
  { style, omitsExpiryAndPubkeyAfterCreation }: TestMintSwitches,
  stage: 'creation' | 'later',
) {
  const isReduced = stage === 'later' && omitsExpiryAndPubkeyAfterCreation;
  const pubkeyField = style === 'cdk' && quote.pubkey === null ? {} : { pubkey: quote.pubkey };
  return {
    quote: quote.id,
    request: quote.request,
    amount: quote.amountSat,
    unit: 'sat',
    ...(style === 'cdk' && { method: 'bolt11' }),
    // Nutshell reports a PENDING quote as unpaid.
    amount_paid: quote.state === 'PAID' || quote.state === 'ISSUED' ? quote.amountSat : 0,
    amount_issued: quote.state === 'ISSUED' ? quote.amountSat : 0,
    updated_at: quote.updatedAt,
    state: quote.state,
    ...(isReduced ? { expiry: null, pubkey: '' } : { expiry: quote.expiresAt, ...pubkeyField }),
  };
}

/** Returns the body of `GET /v1/info` (NUT-06). */
export function infoResponse(switches: TestMintSwitches, nowMs: number) {
  const { batchCheck, maxBatchSize, hasWebSocket, supportsLocking, supportsRestore } = switches;
  const { name, description } = switches;
  return {
    name,
    ...(description !== null && { description }),
    version: 'TestMint/1',
    contact: [],
    time: Math.floor(nowMs / 1000),
    nuts: {
      4: { methods: [bolt11Method(switches)], disabled: switches.isMintingDisabled },
      7: { supported: true },
      ...(supportsRestore && { 9: { supported: true } }),
      12: { supported: true },
      ...(hasWebSocket && {
        17: { supported: [{ method: 'bolt11', unit: 'sat', commands: ['bolt11_mint_quote'] }] },
      }),
      20: { supported: supportsLocking },
      ...(batchCheck === 'advertised' && {
        29: { max_batch_size: maxBatchSize, methods: ['bolt11'] },
      }),
    },
  };
}

function bolt11Method(switches: TestMintSwitches) {
  const { style, minAmountSat, maxAmountSat, supportsDescription, supportsDescriptionHash } =
    switches;
  const options = {
    ...(supportsDescription && { description: true }),
    ...(supportsDescriptionHash && { description_hash: true }),
  };
  return {
    method: 'bolt11',
    unit: 'sat',
    ...(minAmountSat !== null && { min_amount: minAmountSat }),
    ...(maxAmountSat !== null && { max_amount: maxAmountSat }),
    ...(style === 'cdk' ? options : { options }),
  };
}
