import { type Proof, sumProofs, Wallet } from '@cashu/cashu-ts';
import { finalizeEvent } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Nutshell, startNutshell } from '../../scripts/nutshell.ts';
import { openLog } from '../../src/log.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { type MintProxy, startMintProxy } from '../helpers/mint-proxy.ts';
import { request, type TestSocket, TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** Nutshell's fake backend pays every invoice by itself: on its socket after this time. */
const PAYS_AFTER_SECONDS = '1';

const bySocketAlone = (path: string) => /^\/v1\/mint\/quote\/bolt11\/./.test(path);
const byPollingAlone = (path: string) => path === '/v1/ws';

describe.each([
  ['its WebSocket alone', bySocketAlone],
  ['polling alone', byPollingAlone],
])('payments at Nutshell, seen through %s', (_way, blocks) => {
  let nutshell: Nutshell;
  let proxy: MintProxy;
  let testDatabase: TestDatabase;
  let database: Database;
  let service: Service;

  beforeAll(async () => {
    nutshell = await startNutshell({
      env: { FAKEWALLET_DELAY_INCOMING_PAYMENT: PAYS_AFTER_SECONDS },
    });
    proxy = await startMintProxy(nutshell.url, blocks);
    testDatabase = await createTestDatabase();
    database = await testDatabase.open();
    service = await startService(testConfig(proxy.url), { database, log: openLog('silent') });
  }, 60_000);

  afterAll(async () => {
    await service.stop();
    await database.close();
    await testDatabase.drop();
    await proxy.close();
    await nutshell.stop();
  });

  it('an unlocked payment ends as proofs in a wallet', async () => {
    const recipient = new TestWallet(service.publicOrigin);
    const { quote, socket } = await receive(recipient, 21);

    expect(quote).toMatchObject({ amount: 21, state: 'PAID', locked: false, mintUrl: proxy.url });
    const wallet = await openWallet();
    const proofs = await wallet.mintProofsBolt11(21, quote.quoteId);
    expectProofsOf(proofs, 21);
    await expectIssued(recipient, quote.quoteId, socket);
  }, 60_000);

  it('a locked payment ends as proofs in the wallet that has the key', async () => {
    const recipient = new TestWallet(service.publicOrigin);
    const settings = await recipient.send('PATCH', '/api/v2/user/lock', { lockQuotes: true });
    expect(settings.body.data.user.lockQuote).toBe(true);

    const { quote, socket } = await receive(recipient, 34);

    expect(quote).toMatchObject({ amount: 34, locked: true });
    const wallet = await openWallet();
    await expect(wallet.mintProofsBolt11(34, quote.quoteId)).rejects.toThrow();
    const proofs = await wallet.mintProofsBolt11(34, quote.quoteId, {
      privkey: Buffer.from(recipient.secretKey).toString('hex'),
    });
    expectProofsOf(proofs, 34);
    await expectIssued(recipient, quote.quoteId, socket);
  }, 60_000);

  /** Asks for an invoice, waits until it is told that it was paid, and reads it from the list. */
  async function receive(recipient: TestWallet, amountSat: number) {
    const socket = await recipient.openSocket();
    const answer = await request(
      service.url,
      `/.well-known/lnurlp/${recipient.npub}?amount=${amountSat * 1000}`,
    );
    expect(answer.body.pr).toMatch(/^lnbc/);
    const quoteId = await nextUpdate(socket);
    const quotes = await sdkOf(recipient).getAllQuotes();
    expect(quotes.map((each) => each.quoteId)).toEqual([quoteId]);
    const verified = await request('', answer.body.verify);
    expect(verified.body).toMatchObject({ status: 'OK', settled: true, pr: answer.body.pr });
    const [quote] = quotes;
    if (quote === undefined) {
      throw new Error('no quote is listed');
    }
    return { quote, socket };
  }

  /** The wallet collected its quote: the service learns it, and says so. */
  async function expectIssued(recipient: TestWallet, quoteId: string, socket: TestSocket) {
    expect(await nextUpdate(socket)).toBe(quoteId);
    expect(await recipient.listQuotes()).toMatchObject([{ quoteId, state: 'ISSUED' }]);
    await socket.close();
  }

  function sdkOf(recipient: TestWallet): NPCClient {
    const signer = async (event: Parameters<typeof finalizeEvent>[0]) =>
      finalizeEvent(event, recipient.secretKey);
    return new NPCClient(service.publicOrigin, new JWTAuthProvider(service.publicOrigin, signer));
  }

  async function openWallet(): Promise<Wallet> {
    const wallet = new Wallet(nutshell.url, { unit: 'sat' });
    await wallet.loadMint();
    return wallet;
  }

  function expectProofsOf(proofs: Proof[], amountSat: number): void {
    expect(sumProofs(proofs).toNumber()).toBe(amountSat);
  }
});

async function nextUpdate(socket: TestSocket): Promise<string> {
  const message = await socket.next();
  expect(message.type).toBe('update');
  return message.payload.quoteId;
}
