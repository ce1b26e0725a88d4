import { type Event, verifyEvent } from 'nostr-tools';
import { Zap } from 'nostr-tools/kinds';
import { getSatoshisAmountFromBolt11, validateZapRequest } from 'nostr-tools/nip57';
import { describe, expect, it, onTestFinished } from 'vitest';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { requestZapInvoice, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import {
  createTestEnvironment,
  useAdditionalService,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const SECOND_MS = 1_000;
const HOUR_MS = 3_600 * SECOND_MS;

describe('a paid zap', () => {
  it('has one valid receipt at each requested relay and at the operator’s relay', async () => {
    const { operatorRelay, payZap } = await startService();
    const relay = await startFakeRelay();
    const zap = await payZap([relay.url, operatorRelay.url, `${relay.url}/`]);
    expect(validateZapRequest(zap.text)).toBeNull();
    for (const receivingRelay of [relay, operatorRelay]) {
      await receivingRelay.waitForEvents(1);
      const [receipt] = receivingRelay.events.values();
      await expectValidReceipt(receipt, zap);
      expect([...receivingRelay.receiveCounts.values()]).toEqual([1]);
    }
    expect([...relay.events]).toEqual([...operatorRelay.events]);
    const [quote] = await zap.wallet.listPaidQuotes();
    const [receipt] = relay.events.values();
    expect(receipt?.created_at).toBe(quote?.['paidAt']);
  });
});

it('delivers pending receipts after a restart without zap support', async () => {
  const { environment, clock, operatorRelay, payZap } = await startService();
  const relay = await startFakeRelay();
  await relay.stop();
  await payZap([relay.url]);
  await operatorRelay.waitForEvents(1);
  await environment.service.stop();
  await relay.restart();
  clock.advance(HOUR_MS);
  await useAdditionalService(environment, {}, { clock: clock.now });
  await relay.waitForEvents(1);
  expect([...relay.events]).toEqual([...operatorRelay.events]);
});

async function startService() {
  const clock = new TestClock();
  const operatorRelay = await startFakeRelay({ now: clock.now });
  const environment = await createTestEnvironment({
    env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: operatorRelay.url },
    overrides: { clock: clock.now },
  });
  onTestFinished(() => environment.close());
  const payZap = async (relays: string[]) => {
    const wallet = environment.newWallet();
    const { event, text, pr } = await requestZapInvoice(environment.origin, wallet, { relays });
    environment.mint.pay(pr);
    return { wallet, event, text, pr };
  };
  return { environment, clock, operatorRelay, payZap };
}

type PaidZap = Awaited<ReturnType<Awaited<ReturnType<typeof startService>>['payZap']>>;

/** Validates a receipt as a client does (NIP-57 appendix F). */
async function expectValidReceipt(receipt: Event | undefined, zap: PaidZap): Promise<void> {
  const { wallet, event, text, pr } = zap;
  const { body } = await requestJson(wallet.origin, `/.well-known/lnurlp/${wallet.npub}`);
  if (receipt === undefined) {
    throw new Error('no receipt');
  }
  expect(verifyEvent({ ...receipt })).toBe(true);
  expect(receipt).toMatchObject({ kind: Zap, pubkey: body.nostrPubkey, content: '' });
  const tagValue = (name: string) => receipt.tags.find(([first]) => first === name)?.[1];
  expect(tagValue('p')).toBe(wallet.pubkey);
  expect(tagValue('P')).toBe(event.pubkey);
  expect(tagValue('bolt11')).toBe(pr);
  expect(tagValue('description')).toBe(text);
  expect(getSatoshisAmountFromBolt11(pr)).toBe(21);
  expect(tagValue('preimage')).toBeUndefined();
}
