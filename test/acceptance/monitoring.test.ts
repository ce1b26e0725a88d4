import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import type { Service } from '../../src/service.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { eventually } from '../helpers/eventually.ts';
import { type Scrape, scrape } from '../helpers/scrape.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { type ApiAnswer, request, type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { giveOwnMint, serveBeside, startBeside, useWorld } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** What monitoring reads of a process: metrics, after a little of everything has happened, and health. */

const { version } = packageJson;

const PRICE_SAT = 21;
const OWN_RELAY = 'ws://127.0.0.1:9';
const RELAY_OF_PAYER = 'ws://127.0.0.1:19';

const world = useWorld({
  env: {
    METRICS_PORT: '0',
    USERNAME_PRICE_SAT: String(PRICE_SAT),
    ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
    ZAP_RELAYS: OWN_RELAY,
  },
});
let wallet: TestWallet;
let socket: TestSocket;
let metrics: Scrape;

beforeAll(async () => {
  wallet = world.newWallet();
  socket = await wallet.openSocket();
  await world.askInvoice(wallet, 1);
  await zap(wallet, 21_000);
  await eventually(async () => expect(await wallet.listQuotes()).toHaveLength(1));
  await request(world.base, '/no/such/place');
  const token = await (await EcashPayer.open(world.mint)).token(PRICE_SAT);
  expect((await buyUsername(wallet, 'alice', token)).status).toBe(201);
  metrics = await eventually(async () => {
    const scraped = await scrape(world.service);
    expect(scraped.sum('nutpost_backlog_fresh')).toBe(1);
    expect(scraped.sum('nutpost_quote_changes_total')).toBe(1);
    return scraped;
  });
});

afterAll(() => socket.close());

describe('health', () => {
  it('reports that the process lives and is ready, with version, uptime and the number of mints', async () => {
    await world.askInvoice(world.newWallet(), 21);
    const identity = { version, uptimeSeconds: expect.toSatisfy(Number.isInteger) };
    const checks = { database: 'ok', migrations: 'ok', listen: 'ok' };
    const mints = { watched: expect.any(Number), silent: 0 };
    for (const [{ status, headers, body }, expected] of [
      [await live(world.service), { status: 'live', ...identity }],
      [await ready(world.service), { status: 'ready', ...identity, checks, mints }],
    ] as const) {
      expect(status).toBe(200);
      expect(headers.get('cache-control')).toBe('no-store');
      expect(body).toEqual(expected);
    }
  });

  it('answers as often as it is asked, also those who may ask nothing else any more', async () => {
    const service = await serveBeside(world, { LIMIT_REQUESTS: '1' });
    await request(service.url, '/api/v2/info');
    expect((await request(service.url, '/api/v2/info')).status).toBe(429);
    for (let index = 0; index < 3; index += 1) {
      expect((await live(service)).status).toBe(200);
      expect((await ready(service)).status).toBe(200);
    }
  });

  it('stops by saying that it is not ready, while it still serves whoever comes', async () => {
    // All that is asked meanwhile has to fit in, on a slow machine too.
    const service = await startBeside(world, { STOP_DELAY_SECONDS: '3' });
    const wallet = new TestWallet(service.publicOrigin);
    const socket = await wallet.openSocket();
    const stopped = service.stop();

    const answer = await ready(service);
    expect(answer.status).toBe(503);
    expect(answer.body.status).toBe('stopping');
    // Nobody is to send the next request on a connection that is about to end.
    expect(answer.headers.get('connection')).toBe('close');
    expect((await live(service)).status).toBe(200);
    const invoice = await request(service.url, `/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    expect(invoice).toMatchObject({ status: 200, body: { pr: expect.any(String) } });
    expect(await socket.drain()).toEqual([]);

    expect(await socket.next()).toMatchObject({ type: 'error' });
    await socket.closed();
    await stopped;
  });
});

describe('requests', () => {
  it('are counted by route, method and status, and timed', () => {
    const name = 'nutpost_http_requests_total';
    const route = '/.well-known/lnurlp/:user';
    expect(metrics.sum(name, { method: 'GET', route, status: '200' })).toBe(2);
    expect(metrics.sum(name, { method: 'GET', route: 'none', status: '404' })).toBe(1);
    expect(metrics.sum(name, { method: 'POST', status: '201' })).toBe(1);
    expect(metrics.sum('nutpost_http_request_duration_seconds_count', { route })).toBe(2);
  });

  it('have no label that a stranger can make up', async () => {
    const path = '/.well-known/lnurlp/somebody';
    await fetch(`${world.base}${path}?secret=1`, { method: 'PROPFIND' });
    const { text } = await scrape(world.service);
    expect(text).toContain('method="other",route="none"');
    for (const stranger of ['somebody', 'secret', 'PROPFIND', wallet.pubkey, wallet.npub]) {
      expect(text).not.toContain(stranger);
    }
  });

  it('that fail by our fault are counted whatever their status, and not what a mint fails to do', async () => {
    const failures = async () => (await scrape(world.service)).sum('nutpost_http_failures_total');
    expect(await failures()).toBe(0);
    const payee = world.newWallet();
    const mint = await giveOwnMint(payee);
    mint.switches.mintDisabled = true;
    const invoice = await request(world.base, `/.well-known/lnurlp/${payee.npub}?amount=1000`);
    expect(invoice.status).toBe(500);
    const scraped = await scrape(world.service);
    expect(scraped.sum('nutpost_invoices_total', { outcome: 'unavailable' })).toBe(1);
    expect(scraped.sum('nutpost_invoices_total', { outcome: 'failed' })).toBe(0);
    expect(await failures()).toBe(0);

    const { db } = world.database;
    await sql`alter table users rename to users_lost`.execute(db);
    try {
      const lookup = await request(world.base, '/.well-known/nostr.json?name=bob');
      expect(lookup).toMatchObject({ status: 200, body: { error: true } });
    } finally {
      await sql`alter table users_lost rename to users`.execute(db);
    }
    await eventually(async () => expect(await failures()).toBe(1));
  });
});

describe('mints', () => {
  it('are counted by their answers, and payments by where the news came from', () => {
    const labels = { mint: world.mint.url, route: 'create' };
    expect(metrics.sum('nutpost_mint_requests_total', { ...labels, outcome: 'created' })).toBe(2);
    expect(metrics.sum('nutpost_mint_request_duration_seconds_count', labels)).toBe(2);
    expect(metrics.sum('nutpost_quote_changes_total', { state: 'PAID' })).toBe(1);
    expect(metrics.sum('nutpost_mint_sockets')).toBe(1);
    expect(metrics.sum('nutpost_watched_mints')).toBe(1);
    expect(metrics.sum('nutpost_silent_mints')).toBe(0);
  });

  it('tell how many of their quotes wait in which state, and since when one is to be asked about', () => {
    const own = { mint: world.mint.url };
    expect(metrics.sum('nutpost_watched_quotes', { ...own, state: 'UNPAID' })).toBe(1);
    expect(metrics.sum('nutpost_watched_quotes', { ...own, state: 'PAID' })).toBe(1);
    expect(metrics.sum('nutpost_watched_quotes', { ...own, state: 'INFLIGHT' })).toBe(0);
    expect(metrics.sum('nutpost_oldest_due_check_age_seconds', own)).toBeLessThan(30);
  });

  it('that send us away show what they allow, and for how long they are left alone', async () => {
    const payee = world.newWallet();
    world.mint.switches.rateLimit = { perMinute: 1 };
    await eventually(async () => {
      await request(world.base, `/.well-known/lnurlp/${payee.npub}?amount=1000`);
      const scraped = await scrape(world.service);
      const labels = { mint: world.mint.url, route: 'create' };
      expect(scraped.sum('nutpost_mint_rest_seconds', labels)).toBeGreaterThan(50);
      expect(scraped.sum('nutpost_mint_limit_requests', labels)).toBeGreaterThan(0);
      expect(scraped.sum('nutpost_mint_limit_used_requests', labels)).toBeGreaterThan(0);
    });
    world.mint.switches.rateLimit = null;
  });
});

describe('what waits', () => {
  it('is told of zap receipts, by relay of the operator and for the others together', () => {
    const name = 'nutpost_zap_outbox_deliveries';
    expect(metrics.sum(name, { relay: OWN_RELAY })).toBe(1);
    expect(metrics.sum(name, { relay: 'other' })).toBe(1);
    expect(metrics.sum('nutpost_zap_outbox_overdue_seconds', { relay: OWN_RELAY })).not.toBeNull();
    expect(metrics.text).not.toContain(RELAY_OF_PAYER);
  });

  it('is told of usernames', () => {
    expect(metrics.sum('nutpost_username_purchases', { state: 'done' })).toBe(1);
    expect(metrics.sum('nutpost_username_purchases', { state: 'open' })).toBe(0);
    expect(metrics.sum('nutpost_username_purchase_oldest_open_age_seconds')).toBe(0);
    expect(metrics.sum('nutpost_backlog_fresh')).toBe(1);
  });
});

describe('the process', () => {
  it('tells its version, whether it is ready, and how late its event loop is', () => {
    expect(metrics.text).toMatch(/^nutpost_build_info\{version="\d+\.\d+\.\d+"\} 1$/m);
    expect(metrics.sum('nutpost_ready')).toBe(1);
    for (const check of ['database', 'migrations', 'listen']) {
      expect(metrics.sum('nutpost_check_ok', { check }), check).toBe(1);
    }
    expect(metrics.sum('nodejs_eventloop_lag_p99_seconds')).toBeGreaterThan(0);
  });
});

describe('the port of the metrics', () => {
  it('has nothing else, and is the only place that has them', async () => {
    const { metricsUrl, url } = world.service;
    expect(await statusOf(metricsUrl ?? '')).toBe(200);
    expect(await statusOf(new URL('/', metricsUrl ?? '').href)).toBe(404);
    expect(await statusOf(new URL('/api/v2/info', metricsUrl ?? '').href)).toBe(404);
    expect(await statusOf(metricsUrl ?? '', 'POST')).toBe(405);
    expect(await statusOf(`${url}/metrics`)).toBe(404);
  });
});

const live = (service: Service): Promise<ApiAnswer> => request(service.url, '/health/live');
const ready = (service: Service): Promise<ApiAnswer> => request(service.url, '/health/ready');

async function statusOf(url: string, method = 'GET'): Promise<number> {
  const response = await fetch(url, { method });
  await response.body?.cancel();
  return response.status;
}

async function zap(payee: TestWallet, amountMsat: number): Promise<void> {
  const { text } = zapRequest({ recipient: payee.pubkey, amountMsat, relays: [RELAY_OF_PAYER] });
  const path = `/.well-known/lnurlp/${payee.npub}?${zapQuery(text, amountMsat)}`;
  const { body } = await request(world.base, path);
  world.mint.pay(body.pr);
}
