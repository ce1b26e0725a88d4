import { expect, it, onTestFinished } from 'vitest';
import { toUnixSeconds } from '../../src/clock.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import type { FakeNostrRelay } from '../helpers/relays/fake-nostr-relay.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import {
  createTestEnvironment,
  setMint,
  type TestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/**
 * A recipient whose mint is dishonest can report payments that never happened. These rules limit which receipts the
 * zap key signs for such payments. The test mint is the dishonest mint: it reports an invoice as paid without a
 * Lightning payment.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const AMOUNT_MSAT = 21_000;

it('signs at most LIMIT_ZAP_RECEIPTS receipts per hour for a recipient, and records all payments', async () => {
  const { environment, relay, clock, logs } = await startService({ LIMIT_ZAP_RECEIPTS: '3' });
  const wallet = environment.newWallet();
  for (let payments = 1; payments <= 5; payments += 1) {
    const invoice = await payZap(environment, wallet, signZapRequest(wallet, relay, clock.nowMs));
    await waitForPayments(wallet, payments, clock);
    if (payments > 3) {
      expect(await traceReceipt(environment, invoice)).toContain(
        'None: the recipient had reached LIMIT_ZAP_RECEIPTS',
      );
    }
  }
  await relay.waitForEvents(3);
  expect(refusalReasonsIn(logs)).toEqual(['too_many_receipts', 'too_many_receipts']);

  const otherWallet = environment.newWallet();
  await payZap(environment, otherWallet, signZapRequest(otherWallet, relay, clock.nowMs));
  await relay.waitForEvents(4);
  clock.advance(HOUR_MS);
  await payZap(environment, wallet, signZapRequest(wallet, relay, clock.nowMs));
  await relay.waitForEvents(5);
});

it('offers zaps only to recipients at ZAP_MINTS, and treats other zaps as ordinary payments', async () => {
  const trustedMint = await startTestMint();
  const { environment, relay, clock } = await startService({ ZAP_MINTS: `${trustedMint.url}/` });
  const trustingWallet = environment.newWallet();
  await setMint(trustingWallet, trustedMint.url);
  const fetchTerms = async ({ npub }: RecipientClient) =>
    (await requestJson(environment.origin, `/.well-known/lnurlp/${npub}`)).body;
  const zapTerms = { allowsNostr: true, nostrPubkey: TEST_ZAP_PUBKEY };
  expect(await fetchTerms(trustingWallet)).toMatchObject(zapTerms);
  const wallet = environment.newWallet();
  const terms = await fetchTerms(wallet);
  expect(terms).toMatchObject({ tag: 'payRequest' });
  expect(terms).not.toHaveProperty('allowsNostr');
  expect(terms).not.toHaveProperty('nostrPubkey');

  for (const ignored of ['nonsense', signZapRequest(wallet, relay, Date.now())]) {
    await payZap(environment, wallet, ignored);
  }
  for (const quote of await waitForPayments(wallet, 2, clock)) {
    expect(quote).not.toHaveProperty('zapRequest');
  }
  const zapRequest = signZapRequest(trustingWallet, relay, Date.now());
  await payZap(environment, trustingWallet, zapRequest, trustedMint);
  await relay.waitForEvents(1);
  expect(relay.events.size).toBe(1);
});

async function startService(env: Record<string, string> = {}) {
  const relay = await startFakeRelay();
  const clock = new TestClock();
  const logs = new LogCapture('info');
  const environment = await createTestEnvironment({
    env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ...env },
    overrides: { clock: clock.now, log: logs.log },
  });
  onTestFinished(() => environment.close());
  return { environment, relay, clock, logs };
}

/** Without an amount, the request is valid for any invoice. */
function signZapRequest(wallet: RecipientClient, relay: FakeNostrRelay, createdAtMs: number) {
  return createZapRequest({
    recipient: wallet.pubkey,
    amountMsat: AMOUNT_MSAT,
    relays: [relay.url],
    modifyTemplate: ({ tags, ...template }) => ({
      ...template,
      created_at: toUnixSeconds(createdAtMs),
      tags: tags.filter(([name]) => name !== 'amount'),
    }),
  }).text;
}

async function requestZapInvoice(
  { origin }: TestEnvironment,
  wallet: RecipientClient,
  zapRequest: string,
  amountMsat = AMOUNT_MSAT,
) {
  const query = buildZapQuery(zapRequest, amountMsat);
  return (await requestJson(origin, `/.well-known/lnurlp/${wallet.npub}?${query}`)).body;
}

async function payZap(
  environment: TestEnvironment,
  wallet: RecipientClient,
  zapRequest: string,
  mint = environment.mint,
): Promise<string> {
  const body = await requestZapInvoice(environment, wallet, zapRequest);
  expect(body).toHaveProperty('pr');
  mint.pay(body.pr);
  return body.pr;
}

function waitForPayments(wallet: RecipientClient, count: number, clock: TestClock) {
  return eventually(async () => {
    // A payment that follows a read in the same second is listed in the next one.
    clock.advance(1_000);
    const quotes = await wallet.listPaidQuotes();
    expect(quotes).toHaveLength(count);
    return quotes;
  });
}

async function traceReceipt({ database }: TestEnvironment, invoice: string): Promise<string> {
  const { stdout } = await runOperatorCommand(database, ['trace', invoice]);
  return stdout.slice(stdout.indexOf('Zap receipt'));
}

function refusalReasonsIn({ lines }: LogCapture): unknown[] {
  return lines
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event === 'receipt_refused')
    .map(({ reason }) => reason);
}
