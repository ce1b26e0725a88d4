import { expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import type { Database } from '../../src/database/database.ts';
import { createLogger } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import { openTestDatabase } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import {
  type ApiResponse,
  RecipientClient,
  requestJson,
} from '../helpers/recipients/recipient-client.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';

it.each([
  ['LIMIT_OPEN_INVOICES_PER_RECIPIENT'],
  ['LIMIT_OPEN_INVOICES_PER_ADDRESS'],
  ['LIMIT_OPEN_INVOICES_PER_PAIR'],
])(
  'applies %s to the open invoices of two processes together, before and after some are paid',
  async (limit) => {
    const mint = await startTestMint();
    const { testDatabase, database } = await openTestDatabase();
    // Separate connections, as in two processes.
    const otherDatabase = await testDatabase.open();
    onTestFinished(() => otherDatabase.close());
    const first = await start(database, mint, limit);
    const second = await start(otherDatabase, mint, limit);
    const wallet = new RecipientClient(first.publicOrigin);
    const invoices = await requestInvoices([first, second, first, second], wallet);
    expect(statusesOf(invoices)).toEqual([200, 200, 200, 200]);
    expect(statusesOf(await requestInvoices([first, second], wallet))).toEqual([429, 429]);

    mint.pay(invoices[0]?.body.pr);
    mint.pay(invoices[1]?.body.pr);
    await eventually(async () => expect(await wallet.listPaidQuotes()).toHaveLength(2));
    expect(statusesOf(await requestInvoices([second, first], wallet))).toEqual([200, 200]);
    expect(statusesOf(await requestInvoices([second, first], wallet))).toEqual([429, 429]);
  },
);

async function start(database: Database, mint: TestMint, limit: string): Promise<Service> {
  const config = createTestConfig(mint.url, { [limit]: '4' });
  const service = await startService(config, { database, log: createLogger('silent') });
  onTestFinished(() => service.stop());
  return service;
}

async function requestInvoices(
  services: readonly Service[],
  wallet: RecipientClient,
): Promise<ApiResponse[]> {
  const responses: ApiResponse[] = [];
  for (const { url } of services) {
    responses.push(await requestJson(url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`));
  }
  return responses;
}

function statusesOf(responses: readonly ApiResponse[]): number[] {
  return responses.map(({ status }) => status);
}
