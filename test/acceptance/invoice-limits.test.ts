import { describe, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import { isPostgres } from '../helpers/database/test-database.ts';
import { eventually } from '../helpers/eventually.ts';
import { sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import { buildUnpaidQuote } from '../helpers/recipients/quote-fixtures.ts';
import type { ApiResponse, RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { DISABLED_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import {
  assignNewTestMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/** More than twice the limits per address, whose share shrinks from half of this limit on. */
const MAX_PER_RECIPIENT = 12;
const MAX_PER_ADDRESS = 5;
const MAX_PER_PAIR = 4;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

const BURST_SIZE = 60;

const INVOICE_BODY = expect.objectContaining({ pr: expect.any(String) });

const LIMITS = {
  // The service trusts X-Forwarded-For, so that the tests can choose the address of each payer.
  TRUST_PROXY: '127.0.0.1',
  LIMIT_OPEN_INVOICES_PER_RECIPIENT: String(MAX_PER_RECIPIENT),
  LIMIT_OPEN_INVOICES_PER_ADDRESS: String(MAX_PER_ADDRESS),
  LIMIT_OPEN_INVOICES_PER_PAIR: String(MAX_PER_PAIR),
};

const clock = new TestClock();
const environment = useTestEnvironment({
  mint: { now: clock.now },
  overrides: { clock: clock.now },
  env: LIMITS,
});
let addressCount = 0;

describe('unpaid invoices of one recipient', () => {
  it('are limited across all payer addresses, without affecting other recipients', async () => {
    const floodedWallet = environment.newWallet();
    const createdBefore = countCreatedInvoices();
    const burstOutcomes = countOutcomes(
      await Promise.all(Array.from({ length: BURST_SIZE }, () => requestInvoice(floodedWallet))),
    );
    // A request in progress may count twice, so the service may create fewer invoices in the burst.
    const laterOutcomes = countOutcomes(
      await sendSequentially(MAX_PER_RECIPIENT, () => requestInvoice(floodedWallet)),
    );
    expect(burstOutcomes.created + laterOutcomes.created).toBe(MAX_PER_RECIPIENT);
    expect(countCreatedInvoices()).toBe(createdBefore + MAX_PER_RECIPIENT);
    const { status, headers, body } = await requestInvoice(floodedWallet);
    expect(status).toBe(429);
    expect(headers.get('retry-after')).toBe('60');
    expect(headers.get('access-control-allow-origin')).toBe('*');
    expect(body).toEqual({
      status: 'ERROR',
      reason: 'This recipient has too many unpaid invoices. Try again in 60 s.',
    });
    expect((await requestInvoice(environment.newWallet())).body).toEqual(INVOICE_BODY);
    // Processes with one database count them together.
    const otherService = await useAdditionalService(environment, LIMITS, { clock: clock.now });
    expect((await requestInvoice(floodedWallet, newAddress(), otherService)).status).toBe(429);
  });

  it.each([
    ['expire', 20 * 60, 20 * MINUTE_MS],
    ['are ten minutes old, even if they expired earlier', 60, 10 * MINUTE_MS],
    ['are an hour old, even if they expire later', 24 * 60 * 60, HOUR_MS],
  ])('stop counting when they %s', async (_case, expirySeconds, countedMs) => {
    environment.mint.switches.expirySeconds = expirySeconds;
    const wallet = environment.newWallet();
    await sendSequentially(MAX_PER_RECIPIENT, () => requestInvoice(wallet));
    clock.advance(countedMs - 2 * SECOND_MS);
    expect((await requestInvoice(wallet)).status).toBe(429);
    clock.advance(3 * SECOND_MS);
    expect((await requestInvoice(wallet)).body).toEqual(INVOICE_BODY);
  });
});

describe('unpaid invoices requested from one address', () => {
  it('leave room for other payers of the recipient, even in a burst', async () => {
    const wallet = environment.newWallet();
    const attackerAddress = newAddress();
    const burst = Array.from({ length: BURST_SIZE }, () => requestInvoice(wallet, attackerAddress));
    expect((await requestInvoice(wallet)).body).toEqual(INVOICE_BODY);
    expect(countOutcomes(await Promise.all(burst)).created).toBeLessThanOrEqual(MAX_PER_PAIR);
    await sendSequentially(MAX_PER_PAIR, () => requestInvoice(wallet, attackerAddress));
    expect((await requestInvoice(wallet, attackerAddress)).body.reason).toBe(
      'You have too many unpaid invoices for this recipient. Try again in 60 s.',
    );
    expect((await requestInvoice(environment.newWallet(), attackerAddress)).body).toEqual(
      INVOICE_BODY,
    );
  });

  it.each([
    ['an IPv4 address', () => '192.0.2.1'],
    ['an IPv6 /64 network', (index: number) => `2001:db8::${index + 1}`],
  ])('are limited for %s across all recipients', async (_case, chooseAddress) => {
    const createdBefore = countCreatedInvoices();
    const responses: ApiResponse[] = [];
    for (let index = 0; index < 2 * MAX_PER_ADDRESS; index += 1) {
      responses.push(await requestInvoice(environment.newWallet(), chooseAddress(index)));
    }
    expect(countOutcomes(responses)).toEqual({
      created: MAX_PER_ADDRESS,
      rejected: MAX_PER_ADDRESS,
    });
    expect(countCreatedInvoices()).toBe(createdBefore + MAX_PER_ADDRESS);
    expect(responses.at(-1)?.body.reason).toBe(
      'You have too many unpaid invoices. Try again in 60 s.',
    );
  });

  // test/integration/store.test.ts has the removal of the hash.
  it('are stored without the address, but with its hash', async () => {
    const wallet = environment.newWallet();
    await requestInvoice(wallet, '192.0.2.77');
    const quotes = environment.database.db.selectFrom('quotes').selectAll();
    const rows = await quotes.where('pubkey', '=', wallet.pubkey).execute();
    expect(rows).toMatchObject([{ address_hashes: expect.stringMatching(/^[0-9a-f]{16}$/) }]);
    expect(JSON.stringify(rows)).not.toContain('192.0.2');
  });
});

// The budget is in memory.
describe.skipIf(isPostgres)('watched quotes at the mints of one site', () => {
  it('leave an address fewer open invoices the more there are, so that few addresses cannot use them up', async () => {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    await insertWatchedQuotes(wallet, mint, 13_000);
    const service = await useAdditionalService(
      environment,
      { ...DISABLED_LIMITS_ENV, LIMIT_OPEN_INVOICES_PER_ADDRESS: '20', TRUST_PROXY: '127.0.0.1' },
      { clock: clock.now },
    );
    const heavyPayer = newAddress();
    await eventually(async () => {
      const { body } = await requestInvoice(wallet, heavyPayer, service);
      expect(body.reason).toMatch('cannot create an invoice right now');
    });
    // An eighth of the limit, because 7,000 of 20,000 quotes are free.
    expect(mint.requestCounts['POST /v1/mint/quote/bolt11']).toBeLessThan(20);
    expect((await requestInvoice(wallet, newAddress(), service)).body).toEqual(INVOICE_BODY);
  });

  it('are limited, but not at other mints and not at mints that the operator named', async () => {
    const wallet = environment.newWallet();
    const mint = await assignNewTestMint(wallet);
    await insertWatchedQuotes(wallet, mint, 21_000);
    const service = await useAdditionalService(environment, {}, { clock: clock.now });
    await eventually(async () =>
      expect((await requestInvoice(wallet, newAddress(), service)).body.reason).toBe(
        'The recipient’s mint cannot create an invoice right now. Try again later.',
      ),
    );
    const otherWallet = environment.newWallet();
    await assignNewTestMint(otherWallet);
    for (const recipient of [otherWallet, environment.newWallet()]) {
      expect((await requestInvoice(recipient, newAddress(), service)).body).toEqual(INVOICE_BODY);
    }
    const namingService = await useAdditionalService(
      environment,
      { ZAP_MINTS: mint.url },
      { clock: clock.now },
    );
    expect((await requestInvoice(wallet, newAddress(), namingService)).body).toEqual(INVOICE_BODY);
  });
});

async function insertWatchedQuotes(
  { pubkey }: RecipientClient,
  { url: mintUrl }: TestMint,
  count: number,
): Promise<void> {
  for (let inserted = 0; inserted < count; inserted += 1_000) {
    await insertQuotes(
      environment.database.db,
      Array.from({ length: 1_000 }, () =>
        buildUnpaidQuote(pubkey, { mintUrl, createdAtMs: clock.nowMs }),
      ),
    );
  }
}

function requestInvoice(
  wallet: RecipientClient,
  address = newAddress(),
  { url } = environment.service,
): Promise<ApiResponse> {
  const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
  return sendRawRequest(url, path, { headers: { 'x-forwarded-for': address } });
}

function newAddress(): string {
  addressCount += 1;
  return `10.${addressCount >> 8}.${addressCount & 255}.1`;
}

async function sendSequentially(
  times: number,
  sendRequest: () => Promise<ApiResponse>,
): Promise<ApiResponse[]> {
  const responses: ApiResponse[] = [];
  while (responses.length < times) {
    responses.push(await sendRequest());
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
  return environment.mint.requestCounts['POST /v1/mint/quote/bolt11'];
}
