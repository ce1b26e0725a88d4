import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Service } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import {
  type ApiResponse,
  type RecipientClient,
  requestJson,
  type TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { requestZapInvoice, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { type MetricsScrape, scrapeMetrics } from '../helpers/service/metrics-scrape.ts';
import {
  assignNewTestMint,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const PRICE_SAT = 21;
/** Nothing listens at these relay URLs, so the receipts of zaps stay in the outbox. */
const OPERATOR_RELAY = 'ws://127.0.0.1:9';
const PAYER_RELAY = 'ws://127.0.0.1:19';

const environment = useTestEnvironment({
  env: {
    METRICS_PORT: '0',
    USERNAME_PRICE_SAT: String(PRICE_SAT),
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: OPERATOR_RELAY,
  },
});
let wallet: RecipientClient;
let socket: TestQuoteSocket;
/** Scraped after one unpaid invoice, one zap, one unknown path and one username purchase. */
let metrics: MetricsScrape;

beforeAll(async () => {
  wallet = environment.newWallet();
  socket = await wallet.openSocket();
  await environment.requestInvoice(wallet, 1);
  const { pr } = await requestZapInvoice(environment.origin, wallet, { relays: [PAYER_RELAY] });
  environment.mint.pay(pr);
  await eventually(async () => expect(await wallet.listPaidQuotes()).toHaveLength(1));
  await requestJson(environment.origin, '/no/such/place');
  const token = await (await EcashPayer.open(environment.mint)).mintToken(PRICE_SAT);
  expect((await requestUsername(wallet, 'alice', token)).status).toBe(201);
  metrics = await eventually(async () => {
    const scraped = await scrapeMetrics(environment.service);
    expect(scraped.sumSeries('nutpost_database_counts_fresh')).toBe(1);
    expect(scraped.sumSeries('nutpost_quote_changes_total')).toBe(1);
    return scraped;
  });
});

afterAll(() => socket.close());

describe('the health endpoints', () => {
  it('report liveness and readiness, but no version, uptime or counts to strangers', async () => {
    const checks = { database: 'ok', migrations: 'ok', listen: 'ok' };
    for (const [{ status, headers, body }, expected] of [
      [await fetchLiveness(environment.service), { status: 'live' }],
      [await fetchReadiness(environment.service), { status: 'ready', checks }],
    ] as const) {
      expect(status).toBe(200);
      expect(headers.get('cache-control')).toBe('no-store');
      expect(body).toEqual(expected);
    }
  });

  it('are exempt from rate limits', async () => {
    const service = await useAdditionalService(environment, { LIMIT_REQUESTS: '1' });
    await requestJson(service.url, '/api/v2/info');
    expect((await requestJson(service.url, '/api/v2/info')).status).toBe(429);
    for (let index = 0; index < 3; index += 1) {
      expect((await fetchLiveness(service)).status).toBe(200);
      expect((await fetchReadiness(service)).status).toBe(200);
    }
  });
});

describe('the HTTP metrics', () => {
  it('count requests by route, method and status, and measure durations', () => {
    const name = 'nutpost_http_requests_total';
    const route = '/.well-known/lnurlp/:user';
    expect(metrics.sumSeries(name, { method: 'GET', route, status: '200' })).toBe(2);
    expect(metrics.sumSeries(name, { method: 'GET', route: 'none', status: '404' })).toBe(1);
    expect(metrics.sumSeries(name, { method: 'POST', status: '201' })).toBe(1);
    expect(metrics.sumSeries('nutpost_http_request_duration_seconds_count', { route })).toBe(2);
  });

  it('have no labels that clients control', async () => {
    const path = '/.well-known/lnurlp/unknownuser';
    await fetch(`${environment.origin}${path}?secret=1`, { method: 'PROPFIND' });
    const { text } = await scrapeMetrics(environment.service);
    expect(text).toContain('method="other",route="none"');
    for (const value of ['unknownuser', 'secret', 'PROPFIND', wallet.pubkey, wallet.npub]) {
      expect(text).not.toContain(value);
    }
  });

  it('count internal failures regardless of status, but not failures of mints', async () => {
    const fetchFailureCount = async () =>
      (await scrapeMetrics(environment.service)).sumSeries('nutpost_http_failures_total');
    expect(await fetchFailureCount()).toBe(0);
    const recipient = environment.newWallet();
    const mint = await assignNewTestMint(recipient);
    mint.switches.isMintingDisabled = true;
    const path = `/.well-known/lnurlp/${recipient.npub}?amount=1000`;
    expect((await requestJson(environment.origin, path)).status).toBe(500);
    const scraped = await scrapeMetrics(environment.service);
    expect(scraped.sumSeries('nutpost_invoices_total', { outcome: 'unavailable' })).toBe(1);
    expect(scraped.sumSeries('nutpost_invoices_total', { outcome: 'failed' })).toBe(0);
    expect(await fetchFailureCount()).toBe(0);

    const { db } = environment.database;
    await sql`alter table users rename to users_lost`.execute(db);
    try {
      const lookup = await requestJson(environment.origin, '/.well-known/nostr.json?name=bob');
      expect(lookup).toMatchObject({ status: 200, body: { error: true } });
    } finally {
      await sql`alter table users_lost rename to users`.execute(db);
    }
    await eventually(async () => expect(await fetchFailureCount()).toBe(1));
  });
});

describe('the mint metrics', () => {
  it('count requests by outcome and quote changes by state', () => {
    const labels = { mint: environment.mint.url, route: 'create' };
    expect(
      metrics.sumSeries('nutpost_mint_requests_total', { ...labels, outcome: 'created' }),
    ).toBe(2);
    expect(metrics.sumSeries('nutpost_mint_request_duration_seconds_count', labels)).toBe(2);
    expect(metrics.sumSeries('nutpost_quote_changes_total', { state: 'PAID' })).toBe(1);
    expect(metrics.sumSeries('nutpost_mint_sockets')).toBe(1);
    expect(metrics.sumSeries('nutpost_watched_mints')).toBe(1);
    expect(metrics.sumSeries('nutpost_unresponsive_mints')).toBe(0);
  });

  it('report watched quotes by state and the age of the oldest due check', () => {
    const labels = { mint: environment.mint.url };
    expect(metrics.sumSeries('nutpost_watched_quotes', { ...labels, state: 'UNPAID' })).toBe(1);
    expect(metrics.sumSeries('nutpost_watched_quotes', { ...labels, state: 'PAID' })).toBe(1);
    expect(metrics.sumSeries('nutpost_watched_quotes', { ...labels, state: 'INFLIGHT' })).toBe(0);
    expect(metrics.sumSeries('nutpost_oldest_due_poll_age_seconds', labels)).toBeLessThan(30);
  });

  it('report whether a mint limits requests, and the cooldown after a 429', async () => {
    const recipient = environment.newWallet();
    environment.mint.rateLimitNext('POST /v1/mint/quote/bolt11', { retryAfterSeconds: 60 });
    await requestJson(environment.origin, `/.well-known/lnurlp/${recipient.npub}?amount=1000`);
    const scraped = await scrapeMetrics(environment.service);
    const labels = { mint: environment.mint.url, route: 'create' };
    expect(scraped.sumSeries('nutpost_mint_cooldown_seconds', labels)).toBeGreaterThan(50);
    expect(scraped.sumSeries('nutpost_mint_limited', labels)).toBe(0);
  });
});

describe('the queue metrics', () => {
  it('report zap receipts per operator relay and for other relays together', () => {
    const name = 'nutpost_zap_outbox_deliveries';
    expect(metrics.sumSeries(name, { relay: OPERATOR_RELAY })).toBe(1);
    expect(metrics.sumSeries(name, { relay: 'other' })).toBe(1);
    expect(
      metrics.sumSeries('nutpost_zap_outbox_overdue_seconds', { relay: OPERATOR_RELAY }),
    ).not.toBeNull();
    expect(metrics.text).not.toContain(PAYER_RELAY);
  });

  it('report username purchases by state', () => {
    expect(metrics.sumSeries('nutpost_username_purchases', { state: 'completed' })).toBe(1);
    expect(metrics.sumSeries('nutpost_username_purchases', { state: 'open' })).toBe(0);
    expect(metrics.sumSeries('nutpost_username_purchase_oldest_open_age_seconds')).toBe(0);
    expect(metrics.sumSeries('nutpost_database_counts_fresh')).toBe(1);
  });
});

describe('the metrics port', () => {
  it('serves only metrics, and the main port does not serve them', async () => {
    const { metricsUrl, url } = environment.service;
    expect(await fetchStatus(metricsUrl ?? '')).toBe(200);
    expect(await fetchStatus(new URL('/', metricsUrl ?? '').href)).toBe(404);
    expect(await fetchStatus(new URL('/api/v2/info', metricsUrl ?? '').href)).toBe(404);
    expect(await fetchStatus(metricsUrl ?? '', 'POST')).toBe(405);
    expect(await fetchStatus(`${url}/metrics`)).toBe(404);
  });
});

function fetchLiveness({ url }: Service): Promise<ApiResponse> {
  return requestJson(url, '/health/live');
}

function fetchReadiness({ url }: Service): Promise<ApiResponse> {
  return requestJson(url, '/health/ready');
}

async function fetchStatus(url: string, method = 'GET'): Promise<number> {
  const response = await fetch(url, { method });
  await response.body?.cancel();
  return response.status;
}
