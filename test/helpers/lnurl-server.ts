import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { invoiceFor } from './scripted-mint.ts';

/** Somebody else's server of a Lightning address (LUD-06, LUD-16), whose invoices nobody can pay. */
export interface LnurlServer {
  /** `operator@127.0.0.1:port`. */
  address: string;
  /** What it was asked for, in millisatoshis. */
  asked: number[];
}

/** What it answers where that is not what it should. */
export interface LnurlAnswers {
  terms?: (good: object) => object;
  invoice?: (amountMsat: number) => object;
  status?: number;
}

/** Starts one that takes 1 to 1,000,000 sats. */
export async function startLnurlServer(answers: LnurlAnswers = {}): Promise<LnurlServer> {
  const asked: number[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', `http://${request.headers.host}`);
    const answer = (body: object) =>
      response
        .writeHead(answers.status ?? 200, { 'content-type': 'application/json' })
        .end(JSON.stringify(body));
    if (url.pathname === '/.well-known/lnurlp/operator') {
      const good = {
        tag: 'payRequest',
        callback: `${url.origin}/pay?kept=yes`,
        minSendable: 1_000,
        maxSendable: 1_000_000_000,
        metadata: '[["text/plain","for the operator"]]',
      };
      answer(answers.terms?.(good) ?? good);
    } else if (url.pathname === '/pay' && url.searchParams.get('kept') === 'yes') {
      const amountMsat = Number(url.searchParams.get('amount'));
      asked.push(amountMsat);
      answer(answers.invoice?.(amountMsat) ?? { pr: invoiceFor(amountMsat), routes: [] });
    } else {
      answer({ status: 'ERROR', reason: 'Nobody of\u001b[31m this name.' });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  return { address: `operator@127.0.0.1:${port}`, asked };
}
