import { z } from 'zod';
import { issueSignatures } from './issuing.ts';
import { BLINDED_MESSAGE_SCHEMA, PROOF_SCHEMA } from './ledger.ts';
import { createMeltQuote, getMeltQuote, melt } from './melting.ts';
import { MintRejection, notFound } from './mint-rejection.ts';
import { QUOTE_REQUEST_SCHEMA } from './quotes.ts';
import { infoResponse, quoteResponse } from './responses.ts';
import type { TestMintState } from './state.ts';
import type { TestMintSwitches } from './switches.ts';

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
  'POST /v1/melt/quote/bolt11',
  'GET /v1/melt/quote/bolt11/:id',
  'POST /v1/melt/bolt11',
] as const;

export type Route = (typeof ROUTES)[number];

/** The routes whose requests the mint counts. */
export type CountedRoute = Route | 'GET /v1/ws';

/** Returns the response as JSON. @param id the last segment of the path @param body the parsed JSON of a POST */
type RouteHandler = (state: TestMintState, id: string, body: unknown) => unknown;

const SWAP_SCHEMA = z.object({
  inputs: z.array(PROOF_SCHEMA),
  outputs: z.array(BLINDED_MESSAGE_SCHEMA),
});
const CHECK_STATE_SCHEMA = z.object({ Ys: z.array(z.string()) });
const RESTORE_SCHEMA = z.object({ outputs: z.array(BLINDED_MESSAGE_SCHEMA) });
const CHECK_QUOTES_SCHEMA = z.object({ quotes: z.array(z.string()) });
const MELT_QUOTE_SCHEMA = z.object({ request: z.string(), unit: z.literal('sat') });
const MELT_SCHEMA = z.object({
  quote: z.string(),
  inputs: z.array(PROOF_SCHEMA),
  outputs: z.array(BLINDED_MESSAGE_SCHEMA).default([]),
});
const MINT_SCHEMA = z.object({
  quote: z.string(),
  outputs: z.array(BLINDED_MESSAGE_SCHEMA),
  signature: z.string().nullish(),
});

export const ROUTE_HANDLERS: Record<Route, RouteHandler> = {
  'GET /v1/info': ({ switches, now }) => infoResponse(switches, now()),
  'GET /v1/keys': ({ ledger }) => ({ keysets: [ledger.keysets.getWithKeys()] }),
  'GET /v1/keys/:id': ({ ledger }, id) => ({ keysets: [ledger.keysets.getWithKeys(id)] }),
  'GET /v1/keysets': ({ ledger }) => ({ keysets: ledger.keysets.listSummaries() }),

  'POST /v1/swap': async ({ ledger, holds }, _id, body) => {
    const { inputs, outputs } = parseBody(SWAP_SCHEMA, body);
    const completeSwap = ledger.beginSwap(inputs, outputs);
    await holds.waitIfHeld('POST /v1/swap', 'during');
    return { signatures: completeSwap() };
  },
  'POST /v1/checkstate': ({ ledger }, _id, body) => ({
    states: parseBody(CHECK_STATE_SCHEMA, body).Ys.map((y) => ledger.getProofState(y)),
  }),
  'POST /v1/restore': ({ ledger, switches }, _id, body) => {
    if (!switches.supportsRestore) {
      throw notFound();
    }
    return ledger.restore(parseBody(RESTORE_SCHEMA, body).outputs);
  },

  'POST /v1/mint/quote/bolt11': ({ quotes, switches }, _id, body) =>
    quoteResponse(quotes.create(parseBody(QUOTE_REQUEST_SCHEMA, body)), switches, 'creation'),
  'GET /v1/mint/quote/bolt11/:id': ({ quotes, switches }, id) =>
    quoteResponse(quotes.get(id), switches, 'later'),
  'POST /v1/mint/quote/bolt11/check': ({ quotes, switches, chaos }, _id, body) => {
    const ids = parseBody(CHECK_QUOTES_SCHEMA, body).quotes;
    checkBatch(ids, switches);
    return chaos.maybeShuffleBatch(
      ids.map((id) => quoteResponse(quotes.get(id), switches, 'later')),
    );
  },

  'POST /v1/mint/bolt11': async (state, _id, body) => {
    const { quote, outputs, signature } = parseBody(MINT_SCHEMA, body);
    return { signatures: await issueSignatures(state, quote, outputs, signature ?? null) };
  },

  'POST /v1/melt/quote/bolt11': (state, _id, body) =>
    createMeltQuote(state, parseBody(MELT_QUOTE_SCHEMA, body).request),
  'GET /v1/melt/quote/bolt11/:id': getMeltQuote,
  'POST /v1/melt/bolt11': (state, _id, body) => {
    const { quote, inputs, outputs } = parseBody(MELT_SCHEMA, body);
    return melt(state, quote, inputs, outputs);
  },
};

/** Applies the checks that NUT-29 requires, and the additional checks of cdk. */
function checkBatch(ids: string[], { batchCheck, maxBatchSize, style }: TestMintSwitches): void {
  if (batchCheck === 'absent') {
    throw notFound();
  }
  if (ids.length > maxBatchSize) {
    throw new MintRejection(11017, 'Max batch size exceeded');
  }
  if (style === 'cdk' && (ids.length === 0 || new Set(ids).size < ids.length)) {
    throw new MintRejection(11016, 'Duplicate quote IDs');
  }
}

function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (!result.success) {
    throw new MintRejection(0, z.prettifyError(result.error), { status: 422 });
  }
  return result.data;
}
