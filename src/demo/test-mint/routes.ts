import { infoAnswer, meltQuoteAnswer, quoteAnswer } from './answers.ts';
import {
  BATCH_MINT_BODY,
  CHECK_QUOTES_BODY,
  CHECK_STATE_BODY,
  MELT_BODY,
  MINT_BODY,
  RESTORE_BODY,
  SWAP_BODY,
} from './bodies.ts';
import { parseBody } from './body.ts';
import type { Chaos } from './chaos.ts';
import { type Issuing, issue } from './issuing.ts';
import { type InvoiceReader, readMeltOrder } from './melt-order.ts';
import type { TestMintMelts } from './melts.ts';
import { readQuoteOrder } from './quote-order.ts';
import type { TestMintQuote } from './quotes.ts';
import { MintRefusal } from './refusal.ts';
import { type Swapping, swap } from './swapping.ts';
import type { TestMintSwitches } from './switches.ts';

/** The routes of the mint. */
export const ROUTES = [
  'GET /v1/info',
  'GET /v1/keys',
  'GET /v1/keys/:id',
  'GET /v1/keysets',
  'POST /v1/swap',
  'POST /v1/checkstate',
  'POST /v1/restore',
  'POST /v1/mint/quote/bolt11',
  'GET /v1/mint/quote/bolt11/:id',
  'POST /v1/mint/quote/bolt11/check',
  'POST /v1/mint/bolt11',
  'POST /v1/mint/bolt11/batch',
  'POST /v1/melt/quote/bolt11',
  'GET /v1/melt/quote/bolt11/:id',
  'POST /v1/melt/bolt11',
] as const;

export type Route = (typeof ROUTES)[number];

/** A request, with `id` from the path where the route has one, and the parsed body of a POST. */
interface RouteRequest {
  id: string;
  body: unknown;
}

/** Answers with what goes out as JSON, or throws a `MintRefusal`. */
export type RouteHandler = (request: RouteRequest) => unknown;

/** What the routes need of the mint. */
export interface RouteContext extends Issuing, Swapping {
  melts: TestMintMelts;
  readInvoice: InvoiceReader;
  chaos: Chaos;
  onQuoteCreated: (quote: TestMintQuote) => void;
}

/** What each route does. */
export function routeHandlers(context: RouteContext): Record<Route, RouteHandler> {
  const { ledger, quotes, melts, readInvoice, switches, now, chaos } = context;
  const { keysets } = ledger;
  const laterAnswer = (id: string) => quoteAnswer(quotes.get(id), switches, 'later');
  return {
    'GET /v1/info': () => infoAnswer(switches, now()),
    'GET /v1/keys': () => ({ keysets: [keysets.activeWithKeys()] }),
    'GET /v1/keys/:id': ({ id }) => ({ keysets: [keysets.withKeys(id)] }),
    'GET /v1/keysets': () => ({ keysets: keysets.list() }),

    'POST /v1/swap': async ({ body }) => {
      const { inputs, outputs } = parseBody(SWAP_BODY, body);
      return { signatures: await swap(context, inputs, outputs) };
    },
    'POST /v1/checkstate': ({ body }) => {
      const { Ys } = parseBody(CHECK_STATE_BODY, body);
      return { states: Ys.map((y) => ledger.stateOf(y)) };
    },
    'POST /v1/restore': ({ body }) => {
      if (!switches.restore) {
        throw new MintRefusal({ kind: 'not_found' });
      }
      return ledger.restore(parseBody(RESTORE_BODY, body).outputs);
    },

    'POST /v1/mint/quote/bolt11': ({ body }) => {
      const quote = quotes.create(readQuoteOrder(body, switches));
      context.onQuoteCreated(quote);
      return quoteAnswer(quote, switches, 'creation');
    },
    'GET /v1/mint/quote/bolt11/:id': ({ id }) => laterAnswer(id),
    'POST /v1/mint/quote/bolt11/check': ({ body }) => {
      const { quotes: ids } = parseBody(CHECK_QUOTES_BODY, body);
      refuseBadBatch(ids, switches);
      return chaos.batch(ids.map(laterAnswer));
    },

    'POST /v1/mint/bolt11': async ({ body }) => {
      const { quote, outputs, signature } = parseBody(MINT_BODY, body);
      const order = { quoteId: quote, signature: signature ?? null };
      return { signatures: await issue(context, [order], outputs) };
    },
    'POST /v1/mint/bolt11/batch': async ({ body }) => {
      const { quotes: ids, outputs, signatures } = parseBody(BATCH_MINT_BODY, body);
      refuseBadBatch(ids, switches);
      refuseDuplicates(ids);
      const orders = ids.map((quoteId, i) => ({ quoteId, signature: signatures?.[i] ?? null }));
      return { signatures: await issue(context, orders, outputs) };
    },

    'POST /v1/melt/quote/bolt11': ({ body }) =>
      meltQuoteAnswer(melts.create(readMeltOrder(body, switches, readInvoice)), switches),
    'GET /v1/melt/quote/bolt11/:id': ({ id }) => meltQuoteAnswer(melts.get(id), switches),
    'POST /v1/melt/bolt11': ({ body }) => {
      const { quote, inputs, outputs } = parseBody(MELT_BODY, body);
      const payment = { quoteId: quote, inputs, blanks: outputs ?? [] };
      return meltQuoteAnswer(melts.melt(payment), switches);
    },
  };
}

/** NUT-29, as far as the mints agree, and what cdk alone refuses. */
function refuseBadBatch(ids: string[], { batch, maxBatchSize, style }: TestMintSwitches): void {
  if (batch === 'absent') {
    throw new MintRefusal({ kind: 'not_found' });
  }
  if (ids.length > maxBatchSize) {
    throw new MintRefusal({ kind: 'batch_too_large' });
  }
  if (style === 'cdk') {
    refuseDuplicates(ids);
    if (ids.length === 0) {
      throw new MintRefusal({ kind: 'unknown_quote' });
    }
  }
}

function refuseDuplicates(ids: string[]): void {
  if (new Set(ids).size < ids.length) {
    throw new MintRefusal({ kind: 'duplicate_quotes' });
  }
}
