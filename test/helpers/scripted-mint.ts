import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { encodeInvoice } from '../../demo/test-mint/bolt11-encoder.ts';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/** The body of a request for a new quote (NUT-23). */
export interface QuoteOrder {
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
 * Starts a mint that creates quotes as the test says, answers each GET with its info, and ends with the test.
 *
 * @param answer receives the order and what a good mint would answer
 * @param status of its answers to orders
 */
export async function startScriptedMint(
  answer: (order: QuoteOrder, good: object) => object,
  status = 200,
): Promise<LoopbackServer> {
  const reply = async (request: IncomingMessage, response: ServerResponse) => {
    const isInfo = request.method === 'GET';
    const order = isInfo ? null : ((await json(request)) as QuoteOrder);
    const body = order === null ? INFO : answer(order, goodAnswer(order));
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
export function invoiceFor(amountMsat: number): string {
  return encodeInvoice({
    amountMsat,
    createdAt: Math.floor(Date.now() / 1000),
    expirySeconds: 3600,
    paymentHash: randomBytes(32),
    description: '',
  });
}

function goodAnswer({ amount, pubkey }: QuoteOrder): object {
  return {
    quote: randomUUIDv7(),
    request: invoiceFor(amount * 1000),
    amount,
    unit: 'sat',
    state: 'UNPAID',
    expiry: null,
    ...(pubkey !== undefined && { pubkey }),
  };
}
