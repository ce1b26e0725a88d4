import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Milestone } from '../../src/log.ts';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import type { Service } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { requestZapInvoice, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { startAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';

const HOUR_MS = 60 * 60_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const logCapture = new LogCapture('info');
let clockOffsetMs = 0;
const environment = useTestEnvironment({
  env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, USERNAME_PRICE_SAT: '0' },
  overrides: { log: logCapture.log, clock: readClock, scanIntervalMs: 5 },
});

it('logs one line per milestone of a zap, each with the payment hash', async () => {
  const relay = await startFakeRelay();
  const wallet = environment.newWallet();
  const socket = await wallet.openSocket();
  const { pr } = await requestZapInvoice(environment.origin, wallet, {
    relays: [relay.url],
    comment: 'for your eyes',
  });
  const paymentHash = paymentHashOf(pr);
  expect(findLinesOfPayment(paymentHash).map(({ event }) => event)).toEqual(['invoice_created']);

  environment.mint.pay(pr);
  await socket.nextMessage();
  const [paidQuote] = await wallet.listPaidQuotes();
  await environment.mint.markIssued(String(paidQuote?.['quoteId']));
  await socket.nextMessage();
  await eventually(() => {
    const seen = findLinesOfPayment(paymentHash).map(({ event }) => event);
    expect(seen).toEqual(expect.arrayContaining(['receipt_delivered', 'issued', 'update_sent']));
  });

  const lines = findLinesOfPayment(paymentHash);
  const { pubkey } = wallet;
  const mintUrl = environment.mint.url;
  const payment = { pubkey, amountSat: 21, mintUrl };
  expect(expectOneLine(lines, 'invoice_created')).toMatchObject({ ...payment, isZap: true });
  expect(expectOneLine(lines, 'paid')).toMatchObject(payment);
  expect(expectOneLine(lines, 'issued')).toMatchObject(payment);
  const [receipt] = relay.events.keys();
  expect(expectOneLine(lines, 'receipt_signed')).toMatchObject({ receipt, relays: 1 });
  expect(expectOneLine(lines, 'receipt_delivered')).toMatchObject({ receipt, relay: relay.url });
  for (const line of lines.filter(({ event }) => event === 'update_sent')) {
    expect(line).toMatchObject({ pubkey, sockets: 1 });
  }
  expect(new Set(lines.map(({ level }) => level))).toEqual(new Set(['info']));
  expect(JSON.stringify(lines)).not.toContain('for your eyes');

  await socket.close();
});

it('logs the creation and the expiry of an unpaid invoice', async () => {
  const { pr } = await environment.requestInvoice(environment.newWallet(), 21);
  const paymentHash = paymentHashOf(pr);
  // Polling ends at the second poll after the expiry (1 h) and the grace period for late payments (24 h).
  clockOffsetMs += 26 * HOUR_MS;
  await eventually(async () => {
    clockOffsetMs += 5 * HOUR_MS;
    expect(findLinesOfPayment(paymentHash).map(({ event }) => event)).toContain('expired');
  });
  expect(findLinesOfPayment(paymentHash).map(({ event }) => event)).toEqual([
    'invoice_created',
    'expired',
  ]);
});

describe('the X-Request-Id of a response', () => {
  it('is logged at the default level for status 500, but not for status 200', async () => {
    const successful = await requestJson(environment.origin, '/api/v2/info', {
      headers: { 'x-request-id': 'untrusted-id' },
    });
    expect(requestIdOf(successful.headers)).toMatch(UUID);
    environment.mint.switches.isMintingDisabled = true;
    const path = `/.well-known/lnurlp/${environment.newWallet().npub}?amount=21000`;
    const { headers, status } = await requestJson(environment.origin, path);
    expect(status).toBe(500);
    await logCapture.waitForText(`"reqId":"${requestIdOf(headers)}"`);
    expect(logCapture.lines.join('')).not.toContain(requestIdOf(successful.headers));
    expect(logCapture.lines.join('')).not.toContain('untrusted-id');
  });
});

describe('a request behind a trusted proxy', () => {
  const debugLog = new LogCapture('debug');
  let service: Service;

  beforeAll(async () => {
    const env = { TRUST_PROXY: '2001:db8::/32,127.0.0.0/8' };
    service = await startAdditionalService(environment, env, { log: debugLog.log });
  });

  afterAll(() => service.stop());

  it.each(['4bf92f3577b34da6a3ce929d0e0e4736', 'c0a80101-1732.4711:7', 'x'.repeat(64)])(
    'keeps its request id %s in the response and the log',
    async (id) => {
      const { headers } = await requestWithId(id);
      expect(requestIdOf(headers)).toBe(id);
      await debugLog.waitForText(`"reqId":"${id}"`);
      const lines = debugLog.lines
        .map((line) => JSON.parse(line))
        .filter(({ reqId, msg }) => reqId === id && msg === 'request completed');
      expect(lines).toMatchObject([{ method: 'GET', route: '/api/v2/info', status: 200 }]);
    },
  );

  it.each(['x'.repeat(65), 'a b'])('gets a new request id if its own is %s', async (id) => {
    expect(requestIdOf((await requestWithId(id)).headers)).toMatch(UUID);
  });

  function requestWithId(id: string) {
    return requestJson(service.url, '/api/v2/info', { headers: { 'x-request-id': id } });
  }
});

function requestIdOf(headers: Headers): string {
  return headers.get('x-request-id') ?? 'no id';
}

function readClock(): number {
  return Date.now() + clockOffsetMs;
}

function paymentHashOf(invoice: string): string {
  return decodeInvoice(invoice)?.paymentHash ?? 'no hash';
}

type LogLine = Record<string, unknown>;

function findLinesOfPayment(paymentHash: string): LogLine[] {
  return logCapture.lines
    .filter((line) => line.includes(paymentHash))
    .map((line) => JSON.parse(line) as LogLine);
}

function expectOneLine(lines: readonly LogLine[], milestone: Milestone): LogLine | undefined {
  const found = lines.filter((line) => line['event'] === milestone);
  expect(found, milestone).toHaveLength(1);
  return found[0];
}
