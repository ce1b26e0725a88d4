import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import type { ApiResponse, RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { DEFAULT_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

/**
 * Attackers with very many addresses, against a tenth of the default limits. None of them keeps clients from elsewhere
 * from getting an invoice or a socket.
 */

const MAX_PER_RECIPIENT = 200;
const MAX_PER_PAIR = 10;
const MAX_PER_ADDRESS = 30;
const MAX_SOCKETS_PER_ADDRESS = 20;

/** How often the limit of an address fits into the bound of an IPv6 /48. */
const FACTOR_OF_48 = 4;

const CONCURRENCY = 10;

const ELSEWHERE = ['198.51.100.1', '2a00:db8::1'];

const env = {
  ...DEFAULT_LIMITS_ENV,
  LIMIT_OPEN_INVOICES_PER_RECIPIENT: String(MAX_PER_RECIPIENT),
  LIMIT_OPEN_INVOICES_PER_PAIR: String(MAX_PER_PAIR),
  LIMIT_OPEN_INVOICES_PER_ADDRESS: String(MAX_PER_ADDRESS),
  LIMIT_SOCKETS_PER_ADDRESS: String(MAX_SOCKETS_PER_ADDRESS),
  // The service trusts X-Forwarded-For, so that the tests can choose the address of each client.
  TRUST_PROXY: '127.0.0.1',
};
const environment = useTestEnvironment({ env });

describe('the owner of all 65,536 /64s of an IPv6 /48', () => {
  it('does not keep payers from elsewhere from getting invoices of a recipient', async () => {
    const wallet = environment.newWallet();
    const max = FACTOR_OF_48 * MAX_PER_PAIR;
    const { created, reasons } = await requestInvoices(max + 20, addressIn48, () => wallet);
    expect(created).toBeGreaterThan(MAX_PER_PAIR);
    expect(created).toBeLessThanOrEqual(max);
    expect(reasons).toEqual([
      'You have too many unpaid invoices for this recipient. Try again in 60 s.',
    ]);
    await expectInvoices(wallet);
  });

  it('does not keep payers from elsewhere from getting invoices of the mint', async () => {
    const max = FACTOR_OF_48 * MAX_PER_ADDRESS;
    const { created, reasons } = await requestInvoices(max + 20, addressIn48);
    expect(created).toBeLessThanOrEqual(max);
    expect(reasons).toEqual(['You have too many unpaid invoices. Try again in 60 s.']);
    await expectInvoices(environment.newWallet());
  });

  it('does not keep wallets from elsewhere from opening sockets', async () => {
    const max = FACTOR_OF_48 * MAX_SOCKETS_PER_ADDRESS;
    const opened = await openSockets(environment.service.url, max + 20, addressIn48);
    expect(opened).toBe(max);
    expect(await openSockets(environment.service.url, 2, (i) => ELSEWHERE[i] ?? '')).toBe(2);
  });
});

describe('the owner of a /48 at each of 30 providers', () => {
  const addressAtProvider = (i: number) =>
    `${(0x2400 + (i % 30)).toString(16)}:db8:1:${((i * 257) % 65_536).toString(16)}::1`;

  it('does not keep payers from elsewhere from getting invoices of a recipient', async () => {
    const wallet = environment.newWallet();
    const { created, reasons } = await requestInvoices(150, addressAtProvider, () => wallet);
    expect(created).toBeLessThan(145);
    expect(reasons).toEqual(['This recipient has too many unpaid invoices. Try again in 60 s.']);
    await expectInvoices(wallet);
  });

  it('does not keep wallets from elsewhere from opening sockets of a small process', async () => {
    const { url } = await useAdditionalService(environment, {
      ...env,
      LIMIT_SOCKETS: '300',
      LIMIT_SOCKETS_PER_ADDRESS: '10',
    });
    const opened = await openSockets(url, 600, addressAtProvider);
    expect(opened).toBeLessThan(300);
    expect(await openSockets(url, 2, (i) => ELSEWHERE[i] ?? '')).toBe(2);
  });
});

it('gives all payers of an office invoices of a recipient whom 90 other payers have not paid yet', async () => {
  const wallet = environment.newWallet();
  const addressOf = (i: number) => `10.${i % 30}.${Math.floor(i / 30)}.1`;
  expect(await requestInvoices(90, addressOf, () => wallet)).toEqual({ created: 90, reasons: [] });
  // One after the other, because an invoice that is created during another request may count twice.
  for (let i = 0; i < MAX_PER_PAIR; i += 1) {
    const { body } = await requestInvoice(wallet, '192.0.2.1');
    expect(body).toMatchObject({ pr: expect.any(String) });
  }
});

/** Returns an address in another /64 for each number below 65,536. Successive ones are in different /56s. */
function addressIn48(i: number): string {
  return `2001:db8:1:${((i * 257) % 65_536).toString(16)}::1`;
}

async function expectInvoices(wallet: RecipientClient): Promise<void> {
  for (const address of ELSEWHERE) {
    expect((await requestInvoice(wallet, address)).body).toMatchObject({ pr: expect.any(String) });
  }
}

function requestInvoice({ npub }: RecipientClient, address: string): Promise<ApiResponse> {
  const path = `/.well-known/lnurlp/${npub}?amount=21000`;
  return sendRawRequest(environment.service.url, path, { headers: { 'x-forwarded-for': address } });
}

async function requestInvoices(
  count: number,
  addressOf: (i: number) => string,
  chooseRecipient = () => environment.newWallet(),
) {
  const responses: ApiResponse[] = [];
  await runConcurrently(count, async (i) => {
    responses.push(await requestInvoice(chooseRecipient(), addressOf(i)));
  });
  const rejections = responses.filter(({ status }) => status === 429);
  return {
    created: responses.filter(({ body }) => 'pr' in body).length,
    reasons: [...new Set(rejections.map(({ body }) => body.reason))],
  };
}

async function openSockets(
  origin: string,
  count: number,
  addressOf: (i: number) => string,
): Promise<number> {
  const url = `${origin.replace(/^http/, 'ws')}/api/v2/ws/quote`;
  let opened = 0;
  await runConcurrently(count, async (i) => {
    const connection = new WebSocket(url, { headers: { 'x-forwarded-for': addressOf(i) } });
    onTestFinished(() => connection.terminate());
    await once(connection, 'open').then(
      () => (opened += 1),
      () => undefined,
    );
  });
  return opened;
}

async function runConcurrently(count: number, run: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < count) {
      next += 1;
      await run(next - 1);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
}
