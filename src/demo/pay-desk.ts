import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestMint } from './test-mint.ts';

/** Takes the place of a Lightning wallet: an invoice that is posted here is paid. */
export interface PayDesk {
  url: string;
  close(): void;
}

/**
 * Opens a pay desk for the invoices of a test mint, on a port of 127.0.0.1; 0 is any free one.
 *
 * The body may be the bare invoice or anything that contains it, such as the answer in which a payer
 * gets it, so that one `curl` can be piped into the next.
 */
export async function openPayDesk(mint: TestMint, port = 0): Promise<PayDesk> {
  const server = createServer((request, response) => {
    text(request)
      .then((body) => {
        mint.pay(/lnbc[0-9a-z]+/.exec(body)?.[0] ?? '');
        response.end('paid\n');
      })
      .catch((error: unknown) => {
        response.writeHead(400).end(`${error instanceof Error ? error.message : error}\n`);
      });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    url: `http://localhost:${address.port}/pay`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
