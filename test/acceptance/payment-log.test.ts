import { afterAll, beforeAll, expect, it } from 'vitest';
import { readInvoice } from '../../src/domain/bolt11.ts';
import type { Milestone } from '../../src/usecases/milestones.ts';
import { eventually } from '../helpers/eventually.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { operate } from '../helpers/operator.ts';
import { startRelay } from '../helpers/relays.ts';
import { request } from '../helpers/wallet.ts';
import { openWorld, type World } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** What an operator who has a payment hash finds of its payment in the log. */

const HOUR_MS = 60 * 60_000;

const captured = new LogCapture('info');
let aheadMs = 0;
let world: World;

beforeAll(async () => {
  world = await openWorld({
    env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
    surroundings: { log: captured.log, clock: now, scanIntervalMs: 5 },
  });
});

afterAll(() => world.close());

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

/** The one line of a milestone. */
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
