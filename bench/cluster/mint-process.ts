import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json, text } from 'node:stream/consumers';
import { TestMint } from '../../demo/test-mint.ts';

/**
 * Runs several test mints in one process, so that their CPU time is counted apart. Reads their number from standard
 * input as JSON.
 */

/** The JSON line that the process prints when all mints listen. */
export interface MintProcess {
  mintUrls: string[];
  /**
   * `POST /INDEX/pay` pays the invoice in the body at the mint with that index, and returns a {@link Settlement}.
   * `POST /INDEX/issue` marks the quote whose id is in the body as issued, as if the wallet had minted its ecash.
   */
  controlUrl: string;
}

export interface Settlement {
  quoteId: string;
  /** Milliseconds since 1970, with fractions. */
  settledAtMs: number;
}

const mintCount = (await json(process.stdin)) as number;
const mints = await Promise.all(Array.from({ length: mintCount }, () => TestMint.start()));

const server = createServer((incoming, response) => {
  control(incoming.url ?? '', incoming)
    .then((result) => response.end(JSON.stringify(result)))
    .catch((error: Error) => response.writeHead(400).end(error.message));
});
// The load generator keeps its connections open.
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const controlUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const mintUrls = mints.map(({ url }) => url);
process.stdout.write(`${JSON.stringify({ mintUrls, controlUrl } satisfies MintProcess)}\n`);

async function control(url: string, body: NodeJS.ReadableStream): Promise<Settlement | null> {
  const [, index, action] = url.split('/');
  const mint = mints[Number(index)];
  if (mint === undefined) {
    throw new Error(`unknown mint: ${url}`);
  }
  if (action === 'issue') {
    await mint.markIssued(await text(body));
    return null;
  }
  const invoice = await text(body);
  // Before the payment, because the notification of the service is sent during the call.
  const settledAtMs = performance.timeOrigin + performance.now();
  return { quoteId: mint.pay(invoice).id, settledAtMs };
}
