import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { encodeInvoice } from '../../demo/test-mint/bolt11-encoder.ts';

/** What is asked of a mint for a new quote (NUT-23). */
export interface QuoteOrder {
  amount: number;
  pubkey?: string;
}

/** A mint that misbehaves as no switch of the test mint does. */
export interface ScriptedMint {
  url: string;
  close(): Promise<void>;
}

/**
 * Starts a mint that knows two answers: what it can do, and what the test says to an order.
 *
 * @param answer gets the order and what a good mint would answer
 */
export async function startScriptedMint(
  answer: (order: QuoteOrder, good: object) => object,
): Promise<ScriptedMint> {
  const reply = async (request: IncomingMessage) => {
    if (request.method === 'GET') {
      return INFO;
    }
    const order = (await json(request)) as QuoteOrder;
    return answer(order, goodAnswer(order));
  };
  const server = createServer((request, response) => {
    const sent = reply(request).then((body) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
    );
    sent.catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** An invoice that nobody can pay. */
export function invoiceFor(amountMsat: number): string {
  return encodeInvoice({
    amountMsat,
    createdAt: Math.floor(Date.now() / 1000),
    expirySeconds: 3600,
    paymentHash: randomBytes(32),
    description: '',
  });
}

const INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false },
    20: { supported: true },
  },
};

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
