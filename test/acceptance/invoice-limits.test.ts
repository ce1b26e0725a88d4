import { describe, expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { sendRawRequest } from '../helpers/raw-http.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import type { ApiResponse, TestWallet } from '../helpers/test-wallet.ts';

/** Limits for unpaid invoices per recipient, per payer address and per pair of both. */

const PER_RECIPIENT = 6;
const PER_ADDRESS = 5;
const PER_PAIR = 4;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const INVOICE = expect.objectContaining({ pr: expect.any(String) });

const clock = new TestClock();
const world = useTestEnvironment({
  mint: { now: clock.now },
  overrides: { clock: clock.now },
  env: {
    // The test is a trusted proxy, so that it can choose the address of each payer.
    TRUST_PROXY: '127.0.0.1',
    LIMIT_OPEN_INVOICES_PER_RECIPIENT: String(PER_RECIPIENT),
    LIMIT_OPEN_INVOICES_PER_ADDRESS: String(PER_ADDRESS),
    LIMIT_OPEN_INVOICES_PER_PAIR: String(PER_PAIR),
  },
});
let addressCount = 0;

describe('unpaid invoices of one recipient', () => {
  it('are limited across all payer addresses, without affecting other recipients', async () => {
    const floodedWallet = world.newWallet();
    const createdBefore = countCreatedInvoices();
    const burst = countOutcomes(
      await Promise.all(Array.from({ length: 60 }, () => requestInvoice(floodedWallet))),
    );
    // Requests in progress may count twice, so a burst may get fewer than the limit.
    const later = countOutcomes(
      await repeatSequentially(PER_RECIPIENT, () => requestInvoice(floodedWallet)),
    );
    expect(burst.created + later.created).toBe(PER_RECIPIENT);
    expect(countCreatedInvoices()).toBe(createdBefore + PER_RECIPIENT);
    const { status, headers, body } = await requestInvoice(floodedWallet);
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('60');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'This recipient has too many unpaid invoices. Try again in 60 s.',
    });
    expect((await requestInvoice(world.newWallet())).body).toEqual(INVOICE);
  });

  it('stop counting when they are paid', async () => {
    const wallet = world.newWallet();
    const invoices = await repeatSequentially(PER_RECIPIENT, () => requestInvoice(wallet));
    expect((await requestInvoice(wallet)).status).toBe(429);
    for (const { body } of invoices.slice(0, 2)) {
      world.mint.pay(body.pr);
    }
    await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(2));
    expect(countOutcomes(await repeatSequentially(5, () => requestInvoice(wallet)))).toEqual({
      created: 2,
      rejected: 3,
    });
  });

  it.each([
    ['expire', 1_200, 20 * MINUTE_MS],
    ['are ten minutes old, if they expire earlier', 60, 10 * MINUTE_MS],
    ['are an hour old', 86_400, HOUR_MS],
  ])('stop counting when they %s', async (_case, expirySeconds, openMs) => {
    world.mint.switches.expirySeconds = expirySeconds;
    const wallet = world.newWallet();
    await repeatSequentially(PER_RECIPIENT, () => requestInvoice(wallet));
    clock.advance(openMs - 2 * SECOND_MS);
    expect((await requestInvoice(wallet)).status).toBe(429);
    clock.advance(3 * SECOND_MS);
    expect((await requestInvoice(wallet)).body).toEqual(INVOICE);
  });

  it('do not count if the mint returned no valid quote', async () => {
    const wallet = world.newWallet();
    world.mint.switches.invoiceAmountOverrideSat = 1;
    for (const { status } of await repeatSequentially(20, () => requestInvoice(wallet))) {
      expect(status).not.toBe(429);
    }
    world.mint.switches.invoiceAmountOverrideSat = null;
    expect(countOutcomes(await repeatSequentially(10, () => requestInvoice(wallet)))).toEqual({
      created: PER_RECIPIENT,
      rejected: 10 - PER_RECIPIENT,
    });
  });
});

describe('unpaid invoices requested from one address', () => {
  it('leave room for other payers of the recipient, even in a burst', async () => {
    const wallet = world.newWallet();
    const attackerAddress = newAddress();
    const burst = Array.from({ length: 60 }, () => requestInvoice(wallet, attackerAddress));
    expect((await requestInvoice(wallet)).body).toEqual(INVOICE);
    expect(countOutcomes(await Promise.all(burst)).created).toBeLessThanOrEqual(PER_PAIR);
    await repeatSequentially(PER_PAIR, () => requestInvoice(wallet, attackerAddress));
    expect((await requestInvoice(wallet, attackerAddress)).body.reason).toBe(
      'You have too many unpaid invoices for this recipient. Try again in 60 s.',
    );
    expect((await requestInvoice(world.newWallet(), attackerAddress)).body).toEqual(INVOICE);
  });

  it.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['a /64 of IPv6', (index: number) => `2001:db8::${index + 1}`],
  ])('are limited for %s across all recipients', async (_case, addressOf) => {
    const createdBefore = countCreatedInvoices();
    const responses: ApiResponse[] = [];
    for (let index = 0; index < 2 * PER_ADDRESS; index += 1) {
      responses.push(await requestInvoice(world.newWallet(), addressOf(index)));
    }
    expect(countOutcomes(responses)).toEqual({ created: PER_ADDRESS, rejected: PER_ADDRESS });
    expect(countCreatedInvoices()).toBe(createdBefore + PER_ADDRESS);
    expect(responses.at(-1)?.body.reason).toBe(
      'You have too many unpaid invoices. Try again in 60 s.',
    );
  });

  it('store a hash of the address until they are paid', async () => {
    const wallet = world.newWallet();
    const { body } = await requestInvoice(wallet, '192.0.2.77');
    expect(await storedQuotes(wallet)).toEqual([
      { address_group_hash: expect.stringMatching(/^[0-9a-f]{16}$/), has_address: false },
    ]);
    world.mint.pay(body.pr);
    await eventually(async () => {
      expect(await storedQuotes(wallet)).toEqual([
        { address_group_hash: null, has_address: false },
      ]);
    });
  });

  async function storedQuotes({ pubkey }: TestWallet) {
    const rows = await world.database.db
      .selectFrom('quotes')
      .selectAll()
      .where('pubkey', '=', pubkey)
      .execute();
    return rows.map((row) => ({
      address_group_hash: row.address_group_hash,
      has_address: JSON.stringify(row).includes('192.0.2'),
    }));
  }
});

function requestInvoice(wallet: TestWallet, address = newAddress()): Promise<ApiResponse> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return sendRawRequest(world.service.url, path, { headers: { 'x-forwarded-for': address } });
}

function newAddress(): string {
  addressCount += 1;
  return `10.0.${addressCount >> 8}.${addressCount & 255}`;
}

async function repeatSequentially(
  times: number,
  request: () => Promise<ApiResponse>,
): Promise<ApiResponse[]> {
  const responses: ApiResponse[] = [];
  while (responses.length < times) {
    responses.push(await request());
  }
  return responses;
}

function countOutcomes(responses: readonly ApiResponse[]) {
  return {
    created: responses.filter(({ status, body }) => status === 200 && 'pr' in body).length,
    rejected: responses.filter(({ status }) => status === 429).length,
  };
}

function countCreatedInvoices(): number {
  return world.mint.requestCounts['POST /v1/mint/quote/bolt11'];
}
