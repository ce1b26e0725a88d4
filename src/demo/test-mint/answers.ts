import type { TestMintMeltQuote } from './melts.ts';
import type { TestMintQuote } from './quotes.ts';
import type { TestMintSwitches } from './switches.ts';

/**
 * A quote as the mint tells it (NUT-04, NUT-23).
 *
 * @param moment mints tell less of a quote once they have looked it up again
 */
export function quoteAnswer(
  quote: TestMintQuote,
  switches: TestMintSwitches,
  moment: 'creation' | 'later',
) {
  const { style } = switches;
  const facts = {
    quote: quote.id,
    request: quote.request,
    amount: quote.amountSat,
    unit: 'sat',
    ...(style === 'cdk' && { method: 'bolt11' }),
    amount_paid: isCountedAsPaid(quote) ? quote.amountSat : 0,
    amount_issued: quote.state === 'ISSUED' ? quote.amountSat : 0,
    updated_at: quote.updatedAt,
    state: quote.state,
  };
  if (moment === 'later' && switches.dropLaterFacts) {
    return { ...facts, expiry: null, pubkey: '' };
  }
  const expiry = expiryAnswer(quote, switches);
  return style === 'cdk' && quote.pubkey === null
    ? { ...facts, expiry }
    : { ...facts, expiry, pubkey: quote.pubkey };
}

/** While it issues, Nutshell says that nothing has been paid. */
function isCountedAsPaid({ state }: TestMintQuote): boolean {
  return state === 'PAID' || state === 'ISSUED';
}

function expiryAnswer({ expiresAt }: TestMintQuote, { expiryField }: TestMintSwitches) {
  return { seconds: expiresAt, zero: 0, null: null, milliseconds: expiresAt * 1000 }[expiryField];
}

/** A melt quote as the mint tells it (NUT-05, NUT-08, NUT-23). */
export function meltQuoteAnswer(quote: TestMintMeltQuote, { style }: TestMintSwitches) {
  const { state, preimage, change } = quote;
  const facts = {
    quote: quote.id,
    amount: quote.amountSat,
    unit: 'sat',
    request: quote.request,
    fee_reserve: quote.feeReserveSat,
    state,
    expiry: quote.expiresAt,
  };
  return style === 'cdk'
    ? {
        ...facts,
        ...(preimage !== null && { payment_preimage: preimage }),
        ...(change?.length && { change }),
      }
    : { ...facts, paid: state === 'PAID', payment_preimage: preimage, change };
}

/**
 * `GET /v1/info` (NUT-06).
 *
 * @param now milliseconds since 1970
 */
export function infoAnswer(switches: TestMintSwitches, now: number) {
  const { style, batch, maxBatchSize, socket, locking, restore } = switches;
  return {
    name: 'Test mint',
    version: 'TestMint/1',
    contact: [],
    time: Math.floor(now / 1000),
    nuts: {
      4: { methods: [bolt11Method(switches)], disabled: switches.mintDisabled },
      5: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: switches.meltDisabled },
      7: { supported: true },
      8: { supported: true },
      ...(restore && { 9: { supported: true } }),
      10: { supported: true },
      11: { supported: true },
      12: { supported: true },
      ...(socket && {
        17: { supported: [{ method: 'bolt11', unit: 'sat', commands: ['bolt11_mint_quote'] }] },
      }),
      20: { supported: locking },
      ...(batch === 'advertised' && {
        29: {
          ...(style === 'nutshell' && { supported: true }),
          max_batch_size: maxBatchSize,
          methods: ['bolt11'],
        },
      }),
    },
  };
}

function bolt11Method(switches: TestMintSwitches) {
  const { style, minAmountSat, maxAmountSat, description, descriptionHash } = switches;
  const options = {
    ...(description && { description }),
    ...(descriptionHash && { description_hash: descriptionHash }),
  };
  const hasOptions = description || descriptionHash;
  return {
    method: 'bolt11',
    unit: 'sat',
    ...(minAmountSat !== null && { min_amount: minAmountSat }),
    ...(maxAmountSat !== null && { max_amount: maxAmountSat }),
    ...(style === 'cdk' ? options : hasOptions && { options }),
  };
}
