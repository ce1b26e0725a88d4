import { z } from 'zod';
import { infoAnswer, quoteAnswer } from './answers.ts';
import { issue } from './issuing.ts';
import { INPUT, OUTPUT } from './ledger.ts';
import { QUOTE_ORDER } from './quotes.ts';
import { MintRefusal, notFound } from './refusal.ts';
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
] as const;

export type Route = (typeof ROUTES)[number];

/** The routes, and openings of the WebSocket. */
export type CountedRoute = Route | 'GET /v1/ws';

/** Returns what is sent as JSON, or throws a `MintRefusal`. */
type RouteHandler = (state: TestMintState, id: string, body: unknown) => unknown;

const SWAP = z.object({ inputs: z.array(INPUT), outputs: z.array(OUTPUT) });
const CHECK_STATE = z.object({ Ys: z.array(z.string()) });
const RESTORE = z.object({ outputs: z.array(OUTPUT) });
const CHECK_QUOTES = z.object({ quotes: z.array(z.string()) });
const MINT = z.object({
  quote: z.string(),
  outputs: z.array(OUTPUT),
  signature: z.string().nullish(),
});

/** What each route does. `id` is the last segment of the path; `body` is the text of a POST. */
export const ROUTE_HANDLERS: Record<Route, RouteHandler> = {
  'GET /v1/info': ({ switches, now }) => infoAnswer(switches, now()),
  'GET /v1/keys': ({ ledger }) => ({ keysets: [ledger.keysets.withKeys()] }),
  'GET /v1/keys/:id': ({ ledger }, id) => ({ keysets: [ledger.keysets.withKeys(id)] }),
  'GET /v1/keysets': ({ ledger }) => ({ keysets: ledger.keysets.list() }),

  'POST /v1/swap': async ({ ledger, holds }, _id, body) => {
    const { inputs, outputs } = parse(SWAP, body);
    const complete = ledger.beginSwap(inputs, outputs);
    await holds.pass('POST /v1/swap', 'during');
    return { signatures: complete() };
  },
  'POST /v1/checkstate': ({ ledger }, _id, body) => ({
    states: parse(CHECK_STATE, body).Ys.map((y) => ledger.stateOf(y)),
  }),
  'POST /v1/restore': ({ ledger, switches }, _id, body) => {
    if (!switches.restore) {
      throw notFound();
    }
    return ledger.restore(parse(RESTORE, body).outputs);
  },

  'POST /v1/mint/quote/bolt11': ({ quotes, switches }, _id, body) =>
    quoteAnswer(quotes.create(parse(QUOTE_ORDER, body)), switches, 'creation'),
  'GET /v1/mint/quote/bolt11/:id': ({ quotes, switches }, id) =>
    quoteAnswer(quotes.get(id), switches, 'later'),
  'POST /v1/mint/quote/bolt11/check': ({ quotes, switches, chaos }, _id, body) => {
    const ids = parse(CHECK_QUOTES, body).quotes;
    refuseBadBatch(ids, switches);
    return chaos.batch(ids.map((id) => quoteAnswer(quotes.get(id), switches, 'later')));
  },

  'POST /v1/mint/bolt11': async (state, _id, body) => {
    const { quote, outputs, signature } = parse(MINT, body);
    return { signatures: await issue(state, quote, outputs, signature ?? null) };
  },
};

/** NUT-29, and what cdk alone refuses. */
function refuseBadBatch(ids: string[], { batch, maxBatchSize, style }: TestMintSwitches): void {
  if (batch === 'absent') {
    throw notFound();
  }
  if (ids.length > maxBatchSize) {
    throw new MintRefusal(11017, 'Max batch size exceeded');
  }
  if (style === 'cdk' && (ids.length === 0 || new Set(ids).size < ids.length)) {
    throw new MintRefusal(11016, 'Duplicate quote IDs');
  }
}

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (!result.success) {
    throw new MintRefusal(0, z.prettifyError(result.error), { status: 422 });
  }
  return result.data;
}
