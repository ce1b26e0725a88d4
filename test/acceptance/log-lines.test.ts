import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrations } from '../../migrations/index.ts';
import { readInvoice } from '../../src/quotes/bolt11.ts';
import type { Milestone } from '../../src/quotes/milestones.ts';
import type { Service } from '../../src/service.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { operate } from '../helpers/operator.ts';
import { startRelay } from '../helpers/relays.ts';
import { request } from '../helpers/wallet.ts';
import { startBeside, useWorld } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** What the log says of a payment, found by its payment hash, and of a request, found by its id. */

const HOUR_MS = 60 * 60_000;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const captured = new LogCapture('info');
let aheadMs = 0;
const world = useWorld({
  env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
  surroundings: { log: captured.log, clock: now, scanIntervalMs: 5 },
});

it('a zap leaves one line for each milestone, all with the id by which trace finds it', async () => {
  const relay = await startRelay();
  const wallet = world.newWallet();
  const socket = await wallet.openSocket();
  const { text } = zapRequest({
    recipient: wallet.pubkey,
    amountMsat: 21_000,
    relays: [relay.url],
    comment: 'for your eyes',
  });
  const path = `/.well-known/lnurlp/${wallet.npub}?${zapQuery(text, 21_000)}`;
  const { body } = await request(world.base, path);
  const paymentHash = hashOf(body.pr);
  expect(linesOf(paymentHash).map(({ milestone }) => milestone)).toEqual(['invoice_made']);

  world.mint.pay(body.pr);
  await socket.next();
  const [listed] = await wallet.listQuotes();
  await world.mint.issue(String(listed?.['quoteId']));
  await socket.next();
  await untilLogged(paymentHash, 'receipt_delivered', 'collected', 'told');

  const lines = linesOf(paymentHash);
  const { pubkey } = wallet;
  const mintUrl = world.mint.url;
  expect(lineOf(lines, 'invoice_made')).toMatchObject({
    pubkey,
    amountSat: 21,
    mintUrl,
    isZap: true,
  });
  expect(lineOf(lines, 'paid')).toMatchObject({ pubkey, amountSat: 21, mintUrl });
  expect(lineOf(lines, 'collected')).toMatchObject({ pubkey, amountSat: 21, mintUrl });
  const [receipt] = relay.events.keys();
  expect(lineOf(lines, 'receipt_signed')).toMatchObject({ receipt, relays: 1 });
  expect(lineOf(lines, 'receipt_delivered')).toMatchObject({ receipt, relay: relay.url });
  for (const line of lines.filter(({ milestone }) => milestone === 'told')) {
    expect(line).toMatchObject({ pubkey, sockets: 1 });
  }
  expect(new Set(lines.map(({ level }) => level))).toEqual(new Set([30]));
  expect(JSON.stringify(lines)).not.toContain('for your eyes');

  const traced = await operate(world.database, ['trace', paymentHash, '--json']);
  expect(JSON.parse(traced.stdout)).toMatchObject({ payments: [{ paymentHash, state: 'ISSUED' }] });
  await socket.close();
});

it('an invoice that nobody pays leaves two: that it was made, and that it ended for good', async () => {
  const { pr } = await world.askInvoice(world.newWallet(), 21);
  const paymentHash = hashOf(pr);
  // It is given up at the second look after its day of grace.
  aheadMs += 26 * HOUR_MS;
  await eventually(async () => {
    aheadMs += 5 * HOUR_MS;
    expect(linesOf(paymentHash).map(({ milestone }) => milestone)).toContain('expired');
  });
  expect(linesOf(paymentHash).map(({ milestone }) => milestone)).toEqual([
    'invoice_made',
    'expired',
  ]);
});

describe('a response', () => {
  it.each([
    ['that is well', '/api/v2/info', 200],
    ['that is refused', '/api/v2/user/info', 401],
    ['of a path that nothing has', '/nowhere', 404],
  ])('%s has an id of its own, which web pages can read', async (_kind, path, status) => {
    const [first, second] = [await request(world.base, path), await request(world.base, path)];
    expect(first.status).toBe(status);
    const ids = [idOf(first.headers), idOf(second.headers)];
    expect(ids).toEqual([expect.stringMatching(UUID), expect.stringMatching(UUID)]);
    expect(ids[0]).not.toBe(ids[1]);
  });

  it('with status 500 is logged under its id at the usual level, and no other is', async () => {
    const well = await request(world.base, '/api/v2/info', {
      headers: { 'x-request-id': 'a-strangers-id' },
    });
    expect(idOf(well.headers)).toMatch(UUID);
    const { headers, status } = await withoutInvoice();
    expect(status).toBe(500);
    await captured.until(`"reqId":"${idOf(headers)}"`);
    expect(captured.lines.join('')).not.toContain(idOf(well.headers));
    expect(captured.lines.join('')).not.toContain('a-strangers-id');
  });

  it('of a readiness probe is not logged', async () => {
    const newest = Object.keys(migrations).at(-1);
    await sql`delete from kysely_migration where name = ${newest}`.execute(world.database.db);
    const unready = await eventually(async () => {
      const answer = await request(world.base, '/health/ready');
      expect(answer).toMatchObject({ status: 503, body: { checks: { migrations: 'failing' } } });
      return answer;
    });
    const next = await withoutInvoice();
    await captured.until(`"reqId":"${idOf(next.headers)}"`);
    expect(captured.lines.join('')).not.toContain(idOf(unready.headers));
  });

  function withoutInvoice() {
    world.mint.switches.mintDisabled = true;
    const { npub } = world.newWallet();
    return request(world.base, `/.well-known/lnurlp/${npub}?amount=21000`);
  }
});

describe('behind a trusted proxy', () => {
  const debug = new LogCapture('debug');
  let service: Service;

  beforeAll(async () => {
    const env = { TRUST_PROXY: '2001:db8::/32,127.0.0.0/8' };
    service = await startBeside(world, env, { log: debug.log });
  });

  afterAll(() => service.stop());

  it.each(['4bf92f3577b34da6a3ce929d0e0e4736', 'c0a80101-1732.4711:7', 'x'.repeat(64)])(
    'its request id %s is used in the response and the log',
    async (id) => {
      const { headers } = await withId(id);
      expect(idOf(headers)).toBe(id);
      await debug.until(`"reqId":"${id}"`);
      const lines = debug.lines
        .map((line) => JSON.parse(line))
        .filter(({ reqId, msg }) => reqId === id && msg === 'answered');
      expect(lines).toMatchObject([{ method: 'GET', route: '/api/v2/info', status: 200 }]);
    },
  );

  it.each([
    ['too long', 'x'.repeat(65)],
    ['not plain', 'a b'],
    ['empty', ''],
  ])('a request id that is %s is replaced', async (_how, id) => {
    expect(idOf((await withId(id)).headers)).toMatch(UUID);
  });

  function withId(id: string) {
    return request(service.url, '/api/v2/info', { headers: { 'x-request-id': id } });
  }
});

function idOf(headers: Headers): string {
  return headers.get('x-request-id') ?? 'no id';
}

function now(): number {
  return Date.now() + aheadMs;
}

function hashOf(invoice: string): string {
  return readInvoice(invoice)?.paymentHash ?? 'no hash';
}

type Line = Record<string, unknown>;

/** As `grep` finds them. */
function linesOf(paymentHash: string): Line[] {
  return captured.lines
    .filter((line) => line.includes(paymentHash))
    .map((line) => JSON.parse(line) as Line);
}

function lineOf(lines: readonly Line[], milestone: Milestone): Line | undefined {
  const found = lines.filter((line) => line['milestone'] === milestone);
  expect(found, milestone).toHaveLength(1);
  return found[0];
}

async function untilLogged(
  paymentHash: string,
  ...milestones: readonly Milestone[]
): Promise<void> {
  await eventually(() => {
    const seen = linesOf(paymentHash).map(({ milestone }) => milestone);
    expect(seen).toEqual(expect.arrayContaining([...milestones]));
  });
}
