import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { encodeInvoice } from '../../demo/test-mint/bolt11-encoder.ts';
import { type LoopbackServer, listenOnLoopback } from './loopback-server.ts';

/** The body of a request for a new quote (NUT-23). */
export interface QuoteOrder {
  amount: number;
  pubkey?: string;
}

const INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false },
    20: { supported: true },
  },
};

/**
 * Starts a mint that creates quotes as the test says, and answers each GET with its info.
 *
 * @param answer receives the order and what a good mint would answer
 */
export async function startScriptedMint(
  answer: (order: QuoteOrder, good: object) => object,
): Promise<LoopbackServer> {
  const reply = async (request: IncomingMessage) => {
    if (request.method === 'GET') {
      return INFO;
    }
    const order = (await json(request)) as QuoteOrder;
    return answer(order, goodAnswer(order));
  };
  return listenOnLoopback(
    createServer((request, response) => {
      const sent = reply(request).then((body) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
      );
      sent.catch(() => response.destroy());
    }),
  );
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

function goodAnswer({ amount, ...lock }: QuoteOrder): object {
  return {
    quote: randomUUIDv7(),
    request: invoiceFor(amount * 1000),
    amount,
    unit: 'sat',
    state: 'UNPAID',
    expiry: null,
    ...lock,
  };
}
