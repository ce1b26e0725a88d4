import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestMint } from './test-mint.ts';

/** Replaces a Lightning wallet: an invoice that is posted here is paid. */
export interface PayDesk {
  url: string;
  close(): void;
}

/**
 * Opens a pay desk for the invoices of a test mint, on a port of 127.0.0.1; 0 is any free one.
 *
 * The body may be anything that contains the invoice, such as the service's answer, so that one `curl` can be
 * piped into the next.
 */
export async function openPayDesk(mint: TestMint, port = 0): Promise<PayDesk> {
  const server = createServer((request, response) => {
    text(request)
      .then((body) => {
        mint.pay(/lnbc[0-9a-z]+/.exec(body)?.[0] ?? '');
        response.end('paid\n');
      })
      .catch((error: Error) => response.writeHead(400).end(`${error.message}\n`));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/pay`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
