import { finalizeEvent, SimplePool } from 'nostr-tools';
import { expect, it, onTestFinished } from 'vitest';
import { startNostrRelay, unwrapWithNostrSdk } from '../../scripts/nostr-relay.ts';
import { eventually } from '../helpers/eventually.ts';
import {
  requestZapInvoice,
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { createTestEnvironment } from '../helpers/service/test-environment.ts';

it('sends a message through a real relay that nostr-sdk decrypts', async () => {
  const relay = await startNostrRelay();
  onTestFinished(() => relay.stop());
  const env = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: relay.url };
  const environment = await createTestEnvironment({ env });
  onTestFinished(() => environment.close());
  const pool = new SimplePool();
  onTestFinished(() => pool.close([relay.url]));
  const wallet = environment.newWallet();
  const list = {
    kind: 10_050,
    created_at: Math.floor(Date.now() / 1_000),
    tags: [['relay', relay.url]],
    content: '',
  };
  await Promise.all(pool.publish([relay.url], finalizeEvent(list, wallet.secretKey)));
  const channels = [{ kind: 'nostr' }];
  const { status } = await wallet.send('PUT', '/api/v2/user/notifications', { channels });
  expect(status).toBe(200);
  const { event, pr } = await requestZapInvoice(environment.origin, wallet, {
    comment: 'Merci 🥜',
  });
  environment.mint.pay(pr);
  const wrap = await eventually(async () => {
    const filter = { kinds: [1_059], '#p': [wallet.pubkey] };
    const found = await pool.get([relay.url], filter);
    if (found === null) {
      throw new Error('the relay has no message');
    }
    return found;
  });
  const secretKey = Buffer.from(wallet.secretKey).toString('hex');
  const { sender, rumor } = await unwrapWithNostrSdk(JSON.stringify(wrap), secretKey);
  expect(sender).toBe(TEST_ZAP_PUBKEY);
  expect(rumor).toMatchObject({
    kind: 14,
    pubkey: TEST_ZAP_PUBKEY,
    content: expect.stringMatching(/^21 sats from nostr:npub1\w+\n“Merci 🥜”\n/),
  });
  expect(JSON.stringify(rumor)).not.toContain(event.id);
});
