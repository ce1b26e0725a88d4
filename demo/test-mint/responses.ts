import type { TestMintQuote } from './quotes.ts';
import type { TestMintSwitches } from './switches.ts';

/**
 * Returns a quote as the mint sends it (NUT-04, NUT-23).
 *
 * @param stage whether the response is to the creation of the quote; Nutshell omits fields in later responses
 */
export function quoteResponse(
  quote: TestMintQuote,
  { style, omitsExpiryAndPubkeyAfterCreation, stateStyle }: TestMintSwitches,
  stage: 'creation' | 'later',
) {
  const isReduced = stage === 'later' && omitsExpiryAndPubkeyAfterCreation;
  const pubkeyField = style === 'cdk' && quote.pubkey === null ? {} : { pubkey: quote.pubkey };
  const { id, request, state, amountSat: amount } = quote;
  if (stateStyle === 'paid') {
    return { quote: id, request, paid: state === 'PAID' || state === 'ISSUED' };
  }
  const response = {
    quote: id,
    request,
    amount,
    unit: 'sat',
    ...((style === 'cdk' || stateStyle === 'amounts') && { method: 'bolt11' }),
    // Nutshell reports a PENDING quote as unpaid.
    amount_paid: state === 'PAID' || state === 'ISSUED' ? amount : 0,
    amount_issued: state === 'ISSUED' ? amount : 0,
    updated_at: quote.updatedAt,
    ...(stateStyle !== 'amounts' && { state }),
    ...(isReduced ? { expiry: null, pubkey: '' } : { expiry: quote.expiresAt, ...pubkeyField }),
  };
  return stateStyle === 'text' ? withNumbersAsText(response) : response;
}

/** Also changes the state to lower case. */
function withNumbersAsText(response: object) {
  const entries = Object.entries(response).map(([name, value]) =>
    name === 'state'
      ? [name, String(value).toLowerCase()]
      : [name, typeof value === 'number' ? String(value) : value],
  );
  return Object.fromEntries(entries);
}

/** Returns the body of `GET /v1/info` (NUT-06). */
export function infoResponse(switches: TestMintSwitches, nowMs: number) {
  const { batchCheck, maxBatchSize, hasWebSocket, supportsLocking, supportsRestore } = switches;
  const { name, version, description, subscriptionKind } = switches;
  return {
    name,
    ...(description !== null && { description }),
    version,
    contact: [],
    time: Math.floor(nowMs / 1000),
    nuts: {
      4: { methods: [bolt11Method(switches)], disabled: switches.isMintingDisabled },
      5: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false },
      7: { supported: true },
      8: { supported: true },
      ...(supportsRestore && { 9: { supported: true } }),
      12: { supported: true },
      ...(hasWebSocket && {
        17: { supported: [{ method: 'bolt11', unit: 'sat', commands: [subscriptionKind] }] },
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
