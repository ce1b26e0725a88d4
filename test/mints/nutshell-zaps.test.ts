import { nip57, verifyEvent } from 'nostr-tools';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Nutshell, startNutshell } from '../../scripts/nutshell.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { invoiceField } from '../helpers/invoice-field.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { request, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';
import {
  TEST_ZAP_PUBKEY,
  TEST_ZAP_SECRET_KEY,
  zapQuery,
  zapRequest,
} from '../helpers/zap-requests.ts';

/** Zaps and comments at Nutshell, whose fake backend pays every invoice by itself. */

let nutshell: Nutshell;
let relay: TestRelay;
let testDatabase: TestDatabase;
let database: Database;
let service: Service;

beforeAll(async () => {
  nutshell = await startNutshell({ env: { FAKEWALLET_DELAY_INCOMING_PAYMENT: '1' } });
  relay = await TestRelay.start();
  testDatabase = await createTestDatabase();
  database = await testDatabase.open();
  const zaps = { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY };
  service = await startService(testConfig(nutshell.url, zaps), {
    database,
    log: openLog('silent'),
  });
}, 60_000);

afterAll(async () => {
  await service.stop();
  await database.close();
  await testDatabase.drop();
  await relay.close();
  await nutshell.stop();
});

it('a zap that is paid at Nutshell has its receipt at the relay that the payer reads', async () => {
  const recipient = new TestWallet(service.publicOrigin);
  const zap = zapRequest({
    recipient: recipient.pubkey,
    amountMsat: 21_000,
    relays: [relay.url],
  });
  const path = `/.well-known/lnurlp/${recipient.npub}?${zapQuery(zap.text, 21_000)}`;
  const invoice = (await request(service.url, path)).body.pr;
  expect(invoiceField(invoice, 'description')).toContain(recipient.npub);

  await relay.waitFor(1);
  const [receipt] = [...relay.events.values()];
  if (receipt === undefined) {
    throw new Error('no receipt');
  }
  expect(receipt).toMatchObject({ kind: 9735, pubkey: TEST_ZAP_PUBKEY, content: '' });
  expect(verifyEvent(receipt)).toBe(true);
  expect(receipt.tags).toContainEqual(['bolt11', invoice]);
  expect(receipt.tags).toContainEqual(['description', zap.text]);
  expect(nip57.validateZapRequest(zap.text)).toBeNull();
}, 60_000);

it('a comment is what the invoice says, cut to what a Lightning node bears', async () => {
  const { npub } = new TestWallet(service.publicOrigin);
  const ask = async (comment: string) => {
    const query = `amount=21000&comment=${encodeURIComponent(comment)}`;
    const answer = await request(service.url, `/.well-known/lnurlp/${npub}?${query}`);
    return invoiceField(answer.body.pr, 'description');
  };
  expect(await ask('thanks for the nuts')).toBe('thanks for the nuts');
  expect(await ask('🥜'.repeat(255))).toBe('🥜'.repeat(159));
}, 60_000);
