import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { encodeInvoice } from '../../demo/test-mint/bolt11-encoder.ts';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/** The body of a request for a new quote (NUT-23). */
export interface QuoteRequest {
  amount: number;
  description?: string;
  pubkey?: string;
}

const INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat', description: true }], disabled: false },
    20: { supported: true },
  },
};

/**
 * Starts a mint that creates scripted quotes, responds to each GET with its info, and stops with the test.
 *
 * @param buildResponse receives the request and a valid response
 * @param status of the responses to quote requests
 */
export async function startScriptedMint(
  buildResponse: (quoteRequest: QuoteRequest, good: object) => object,
  status = 200,
): Promise<LoopbackServer> {
  const reply = async (request: IncomingMessage, response: ServerResponse) => {
    const isInfo = request.method === 'GET';
    const quoteRequest = isInfo ? null : ((await json(request)) as QuoteRequest);
    const body =
      quoteRequest === null ? INFO : buildResponse(quoteRequest, validQuoteResponse(quoteRequest));
    response.writeHead(isInfo ? 200 : status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const server = createServer((request, response) => {
    reply(request, response).catch(() => response.destroy());
  });
  const mint = await listenOnLoopback(server);
  onTestFinished(mint.close);
  return mint;
}

/** An invoice that cannot be paid. */
export function createUnpayableInvoice(amountMsat: number): string {
  return encodeInvoice({
    amountMsat,
    createdAt: Math.floor(Date.now() / 1000),
    expirySeconds: 3600,
    paymentHash: randomBytes(32),
    description: '',
  });
}

function validQuoteResponse({ amount, pubkey }: QuoteRequest): object {
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
