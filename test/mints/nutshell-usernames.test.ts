import { decodePaymentRequest, getEncodedToken, type Proof, Wallet } from '@cashu/cashu-ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Nutshell, startNutshell } from '../../scripts/nutshell.ts';
import { parseLightningAddress } from '../../src/domain/lightning-address.ts';
import { openLog } from '../../src/log.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { type Service, startService } from '../../src/service.ts';
import type { Database } from '../../src/store/database.ts';
import { Store } from '../../src/store/store.ts';
import { openTill } from '../../src/till.ts';
import { createTestDatabase, type TestDatabase } from '../helpers/database.ts';
import { startLnurlServer } from '../helpers/lnurl-server.ts';
import { type MintProxy, startMintProxy } from '../helpers/mint-proxy.ts';
import { createLimiter } from '../helpers/test-limiter.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { TestWallet } from '../helpers/wallet.ts';
import { testConfig } from '../helpers/world.ts';

/** Usernames that are bought with ecash of Nutshell, which takes a fee for each proof (NUT-02). */

const PRICE_SAT = 21;

/** A tenth of a sat for each proof: what pays 21 sat has three and costs one. */
const FEE_PPK = '100';
const FEE_SAT = 1;

describe('a username, bought with ecash of a mint that takes a fee', () => {
  let nutshell: Nutshell;
  let proxy: MintProxy;
  let testDatabase: TestDatabase;
  let database: Database;
  let service: Service;
  let cashu: Wallet;
  let losesSwaps = false;

  beforeAll(async () => {
    nutshell = await startNutshell({
      env: { MINT_INPUT_FEE_PPK: FEE_PPK, FAKEWALLET_DELAY_INCOMING_PAYMENT: '0' },
    });
    proxy = await startMintProxy(
      nutshell.url,
      () => false,
      (path) => losesSwaps && path === '/v1/swap',
    );
    testDatabase = await createTestDatabase();
    database = await testDatabase.open();
    const env = { USERNAME_PRICE_SAT: String(PRICE_SAT) };
    service = await startService(testConfig(proxy.url, env), { database, log: openLog('silent') });
    cashu = new Wallet(proxy.url, { unit: 'sat' });
    await cashu.loadMint();
  }, 60_000);

  afterAll(async () => {
    await service.stop();
    await database.close();
    await testDatabase.drop();
    await proxy.close();
    await nutshell.stop();
  });

  it('is paid with exactly the amount that is asked for', async () => {
    const before = await earnedSat();
    expect(
      (await buyUsername(newWallet(), 'exactly', encode(await proofs(PRICE_SAT)))).status,
    ).toBe(201);
    expect((await earnedSat()) - before).toBe(PRICE_SAT - FEE_SAT);
  }, 30_000);

  it('is paid with the fee on top, as cdk’s wallet does', async () => {
    const before = await earnedSat();
    const withFee = PRICE_SAT + FEE_SAT;
    expect((await buyUsername(newWallet(), 'withfee', encode(await proofs(withFee)))).status).toBe(
      201,
    );
    expect((await earnedSat()) - before).toBe(withFee - FEE_SAT);
  }, 30_000);

  it('is paid by a wallet that decodes the request of the 402', async () => {
    const wallet = newWallet();
    const creq = decodePaymentRequest(
      (await buyUsername(wallet, 'inband')).headers.get('x-cashu') ?? '',
    );
    expect(creq.mints).toEqual([proxy.url]);
    const { send } = await cashu.ops.send(creq.amount ?? 0, await proofs(64)).run();
    const { status, body } = await buyUsername(wallet, 'inband', encode(send));
    expect(status).toBe(201);
    expect(body.data.user.name).toBe('inband');
  }, 30_000);

  it('is not paid with less, with what is spent, or with what never was, and then nothing is lost', async () => {
    const wallet = newWallet();
    const good = await proofs(PRICE_SAT);
    const short = encode(await proofs(PRICE_SAT - 1));
    expect((await buyUsername(wallet, 'refused', short)).body.message).toMatch(/worth 20 sat/);
    const unsigned = good.map(({ id, amount, C, secret }) => ({
      id,
      amount,
      C,
      secret: `${secret}0`,
    }));
    const refusal = await buyUsername(wallet, 'refused', encode(unsigned));
    expect(refusal).toMatchObject({
      status: 402,
      body: { message: 'The mint does not accept the token.' },
    });
    const spent = await proofs(PRICE_SAT);
    await cashu.receive(spent);
    const refusalOfSpent = await buyUsername(wallet, 'refused', encode(spent));
    expect(refusalOfSpent).toMatchObject({
      status: 402,
      body: { message: 'The token was spent before.' },
    });
    expect((await buyUsername(wallet, 'refused', encode(good))).status).toBe(201);
  }, 60_000);

  it('is given though the answer to the swap is lost, and the mint restores what it signed', async () => {
    const wallet = newWallet();
    const before = await earnedSat();
    const token = encode(await proofs(PRICE_SAT));
    losesSwaps = true;
    const answer = await buyUsername(wallet, 'lostanswer', token);
    losesSwaps = false;
    expect(answer.status).toBe(201);
    expect((await earnedSat()) - before).toBe(PRICE_SAT - FEE_SAT);
    expect((await buyUsername(wallet, 'lostanswer', token)).status).toBe(201);
  }, 60_000);

  it('is somebody else’s for whoever comes second, with a token that is still good', async () => {
    const token = encode(await proofs(PRICE_SAT));
    expect((await buyUsername(newWallet(), 'exactly', token)).status).toBe(409);
    expect((await cashu.receive(token)).length).toBeGreaterThan(0);
  }, 30_000);

  it('has earned ecash that the mint takes back: as a token, and to pay a Lightning address', async () => {
    const fetch = new GuardedFetch({ allowPrivateNetworks: true });
    const till = openTill({
      config: testConfig(proxy.url, { USERNAME_PRICE_SAT: String(PRICE_SAT) }),
      store: new Store(database.db),
      fetch,
      limiter: createLimiter().limiter,
      clock: Date.now,
      log: openLog('silent'),
    });
    const treasury = till?.treasury;
    const before = await earnedSat();
    expect(before).toBeGreaterThan(80);

    const token = await treasury?.withdraw.asToken({ mintUrl: null, amountSat: 30 });
    if (token?.outcome !== 'token') {
      throw new Error(`no token: ${JSON.stringify(token)}`);
    }
    const received = await cashu.receive(token.token);
    const sum = received.reduce((sat, { amount }) => sat + amount.toNumber(), 0);
    expect(sum).toBe(30 - FEE_SAT);

    const payee = await startLnurlServer();
    const address = parseLightningAddress(payee.address);
    const wish = { mintUrl: null, amountSat: 21 };
    const paid = address && (await treasury?.withdraw.toAddress(wish, address));
    expect(paid).toMatchObject({ outcome: 'paid', amountSat: 21 });
    expect(payee.asked).toContain(21_000);

    const [balance] = (await treasury?.show.overview())?.balances ?? [];
    const rest = await treasury?.withdraw.asToken({ mintUrl: null, amountSat: null });
    if (rest?.outcome !== 'token') {
      throw new Error(`no token: ${JSON.stringify(rest)}`);
    }
    expect(rest.amountSat).toBe(balance?.amountSat);
    const { proofs: restOf } = cashu.decodeToken(rest.token);
    const states = await cashu.checkProofsStates(restOf);
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set(['UNSPENT']));
    await fetch.close();
  }, 60_000);

  function newWallet(): TestWallet {
    return new TestWallet(service.publicOrigin);
  }

  /** New proofs; Nutshell’s fake backend pays every invoice. */
  async function proofs(amountSat: number): Promise<Proof[]> {
    const quote = await cashu.createMintQuoteBolt11(amountSat);
    await cashu.checkMintQuoteBolt11(quote.quote);
    return await cashu.mintProofsBolt11(amountSat, quote.quote);
  }

  function encode(tokens: Proof[]): string {
    return getEncodedToken({ mint: proxy.url, unit: 'sat', proofs: tokens });
  }

  async function earnedSat(): Promise<number> {
    const rows = await database.db.selectFrom('treasury_proofs').select('amount_sat').execute();
    return rows.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0);
  }
});
