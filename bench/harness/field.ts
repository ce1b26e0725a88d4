/** What the mints of a field, and the quotes open at them, are: the same on both sides. */

/**
 * How a mint of the field behaves.
 *
 * - `swift`: answers at once, with batches (NUT-29) and a socket (NUT-17).
 * - `plain`: answers at once, one quote at a time and without a socket.
 * - `slow`: as `swift`, but everything takes it {@link SLOW_ANSWER_MS}.
 * - `dead`: takes connections and never answers.
 */
export type FieldMintKind = 'swift' | 'plain' | 'slow' | 'dead';

/** Just within the time that the service gives a mint. */
export const SLOW_ANSWER_MS = 10_000;

/** The amount of every quote. */
export const AMOUNT_SAT = 21;

/** One quote in so many was paid before, and waits for its owner to collect it. */
const PAID_EVERY = 20;

/** The id of a mint's quote by its number: opaque to the service, as long as those in use. */
export function fieldQuoteId(mint: number, quote: number): string {
  return `${idPrefix(mint)}${quote.toString(16).padStart(12, '0')}`;
}

/** The number of a mint's quote; null where it has none by this id. */
export function fieldQuoteNumber(mint: number, quoteId: string): number | null {
  const prefix = idPrefix(mint);
  const quote = Number.parseInt(quoteId.slice(prefix.length), 16);
  return quoteId === fieldQuoteId(mint, quote) ? quote : null;
}

/** Each quote's own text, as long as an invoice usually is; nobody decodes it. */
export function fieldInvoice(quoteId: string): string {
  return `lnbc210n1p${quoteId.replaceAll('-', '')}`.padEnd(320, 'q9sqz7f4');
}

/** Whether a quote is paid from the beginning. */
export function isPaidBefore(quote: number): boolean {
  return quote % PAID_EVERY === 1;
}

/** What a mint says of itself (NUT-06), in the words of a Nutshell. */
export function fieldMintInfo(kind: FieldMintKind) {
  const bolt11 = { method: 'bolt11', unit: 'sat' };
  const commands = ['bolt11_melt_quote', 'proof_state', 'bolt11_mint_quote'];
  return {
    name: 'Cashu mint',
    version: 'Nutshell/0.20.2',
    contact: [],
    nuts: {
      4: { methods: [{ ...bolt11, options: { description: true } }], disabled: false },
      5: { methods: [bolt11], disabled: false },
      20: { supported: true },
      ...(kind !== 'plain' && {
        17: { supported: [{ ...bolt11, commands }] },
        29: { supported: true, max_batch_size: 1000, methods: ['bolt11'] },
      }),
    },
  };
}

function idPrefix(mint: number): string {
  return `01a1fbb8-${mint.toString(16).padStart(4, '0')}-7000-8000-`;
}
