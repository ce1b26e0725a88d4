import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { encodeInvoice } from '../../../demo/test-mint/bolt11-encoder.ts';
import { type LoopbackServer, listenOnLoopback } from '../network/loopback-server.ts';

interface MintQuoteRequest {
  amount: number;
  description?: string;
  pubkey?: string;
}

export type QuoteResponseBuilder = (
  quoteRequest: MintQuoteRequest,
  validResponse: { quote: string; request: string },
) => object;

const MINT_INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat', description: true }], disabled: false },
    20: { supported: true },
  },
};

export async function startMintWithScriptedQuotes(
  buildQuoteResponse: QuoteResponseBuilder,
  quoteStatus = 200,
): Promise<LoopbackServer> {
  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const sendJson = (status: number, body: object) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (request.method === 'GET') {
      sendJson(200, MINT_INFO);
      return;
    }
    const quoteRequest = (await json(request)) as MintQuoteRequest;
    sendJson(quoteStatus, buildQuoteResponse(quoteRequest, buildValidResponse(quoteRequest)));
  };
  const server = createServer((request, response) => {
    respond(request, response).catch(() => response.destroy());
  });
  const mint = await listenOnLoopback(server);
  onTestFinished(mint.close);
  return mint;
}

/** Creates a valid invoice whose payment no Lightning node accepts. */
export function createUnpayableInvoice(amountMsat: number): string {
  return encodeInvoice({
    amountMsat,
    createdAt: Math.floor(Date.now() / 1000),
    expirySeconds: 3600,
    paymentHash: randomBytes(32),
    description: '',
  });
}

function buildValidResponse({ amount, pubkey }: MintQuoteRequest) {
  return {
    quote: randomUUIDv7(),
    request: createUnpayableInvoice(amount * 1000),
    amount,
    unit: 'sat',
    state: 'UNPAID',
    expiry: null,
    ...(pubkey !== undefined && { pubkey }),
  };
}
