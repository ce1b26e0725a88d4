import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { insertPaidQuotes } from '../helpers/recipients/quote-fixtures.ts';
import type { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const LIST_PATH = '/api/v2/wallet/quotes';

/** With the longest zap requests, invoices and comments, a list has 0.7 MB. */
const LISTED_QUOTES = 50;
const ZAP_REQUEST_LENGTH = 14_000;
const LIST_LENGTH = LISTED_QUOTES * ZAP_REQUEST_LENGTH;

/** They fit into one chunk, of which Node parses all requests before it stops reading. */
const PIPELINED_REQUESTS = 60;

const environment = useTestEnvironment();

it('disconnects the client that has been reading for longest if unread responses take too much memory', async () => {
  const wallet = environment.newWallet();
  await insertPaidQuotes(environment.database, wallet.pubkey, LISTED_QUOTES);
  await environment.database.db
    .updateTable('quotes')
    .set({ zap_request: 'a'.repeat(ZAP_REQUEST_LENGTH) })
    .execute();
  const first = await requestLists(wallet);
  const second = await requestLists(wallet);
  const { body } = await wallet.get(LIST_PATH);
  expect(body.data.quotes).toHaveLength(LISTED_QUOTES);
  const received = [await readLength(first), await readLength(second)];
  expect(received[0]).toBeLessThan(PIPELINED_REQUESTS * LIST_LENGTH);
  expect(received[1]).toBeGreaterThan(PIPELINED_REQUESTS * LIST_LENGTH);
});

async function requestLists(wallet: RecipientClient): Promise<Socket> {
  const { hostname, port } = new URL(environment.service.url);
  const socket = connect(Number(port), hostname).pause();
  const head = `GET ${LIST_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: ${wallet.signRequest(LIST_PATH)}\r\n`;
  socket.write(`${head}\r\n`.repeat(PIPELINED_REQUESTS - 1));
  socket.write(`${head}Connection: close\r\n\r\n`);
  await delay(2_000);
  return socket;
}

async function readLength(socket: Socket): Promise<number> {
  const closed = once(socket, 'close').catch(() => undefined);
  socket.on('error', () => undefined).resume();
  await closed;
  return socket.bytesRead;
}
