import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestMint } from './test-mint.ts';

/** An HTTP server that replaces a Lightning wallet: it pays each invoice that is posted to it. */
export interface PaymentServer {
  url: string;
  close(): void;
}

/**
 * Starts a payment server for the invoices of a test mint on 127.0.0.1.
 *
 * The request body can be any text that contains the invoice. The output of the `curl` command that requests an
 * invoice can therefore be piped into the `curl` command that pays it.
 *
 * @param port 0 chooses any free port
 */
export async function startPaymentServer(mint: TestMint, port = 0): Promise<PaymentServer> {
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
