import { expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import type { ApiResponse, RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { DEFAULT_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

/** Floods of requests for invoices, with the default limits. */

/** The defaults of `LIMIT_OPEN_INVOICES_PER_PAIR`, and of `LIMIT_OPEN_INVOICES_PER_ADDRESS`. */
const MAX_PER_PAIR = 100;
const MAX_PER_ADDRESS = 300;

const PAIR_MESSAGE = 'You have too many unpaid invoices for this recipient. Try again in 60 s.';

const environment = useTestEnvironment({
  env: {
    ...DEFAULT_LIMITS_ENV,
    // The service trusts X-Forwarded-For, so that the tests can choose the address of each payer.
    TRUST_PROXY: '127.0.0.1',
  },
});

it('leaves room for payers from a tenth network while nine networks flood one recipient', async () => {
  const wallet = environment.newWallet();
  const hostileAddresses = Array.from({ length: 9 }, (_, index) => `2001:db8:${index + 1}::1`);
  let total = 0;
  for (const address of hostileAddresses) {
    const { created } = await requestInvoices(wallet, address, MAX_PER_PAIR + 1);
    expect(created).toBeLessThanOrEqual(MAX_PER_PAIR);
    total += created;
  }
  expect(total).toBeGreaterThan(500);
  // Another address of the same /64.
  expect((await requestInvoice(wallet, '2001:db8:1::2')).body).toEqual({
    status: 'ERROR',
    reason: PAIR_MESSAGE,
  });
  const { created } = await requestInvoices(wallet, '198.51.100.1', MAX_PER_PAIR);
  expect(created).toBeGreaterThan(10);
});

it('stops an address that floods one recipient, but not its payments to others', async () => {
  const wallet = environment.newWallet();
  const { created } = await requestInvoices(wallet, '192.0.2.1', MAX_PER_PAIR + 1);
  expect(created).toBe(MAX_PER_PAIR);
  expect((await requestInvoice(wallet, '192.0.2.2')).status).toBe(200);
  expect((await requestInvoice(environment.newWallet(), '192.0.2.1')).status).toBe(200);
});

it('does not limit a custodial wallet that pays for many users from one address', async () => {
  const wallet = environment.newWallet();
  const payments = MAX_PER_ADDRESS + MAX_PER_PAIR;
  for (let paid = 0; paid < payments; paid += MAX_PER_PAIR) {
    const verifyUrls: string[] = [];
    for (let index = 0; index < MAX_PER_PAIR; index += 1) {
      const { body } = await requestInvoice(wallet, '192.0.2.99');
      environment.mint.pay(body.pr);
      verifyUrls.push(body.verify);
    }
    await eventually(async () => {
      for (const url of verifyUrls) {
        expect(await (await fetch(url)).json()).toMatchObject({ settled: true });
      }
    });
  }
});

function requestInvoice(wallet: RecipientClient, address: string): Promise<ApiResponse> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return sendRawRequest(environment.service.url, path, { headers: { 'x-forwarded-for': address } });
}

async function requestInvoices(wallet: RecipientClient, address: string, count: number) {
  let created = 0;
  let lastResponse: ApiResponse | null = null;
  for (let index = 0; index < count; index += 1) {
    lastResponse = await requestInvoice(wallet, address);
    created += Number(lastResponse.status === 200);
  }
  return { created, lastResponse };
}
