import { getEncodedToken, type Proof, Wallet } from '@cashu/cashu-ts';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Store } from '../../src/store.ts';
import { createTreasurySealer } from '../../src/usernames/create-usernames.ts';
import { Treasury } from '../../src/usernames/treasury.ts';
import { testConfig } from '../helpers/test-environment.ts';
import { TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { type NutshellDeployment, startNutshellDeployment } from './nutshell-deployment.ts';

/** Usernames that are bought with ecash of Nutshell, which takes a fee for each proof (NUT-02). */

const PRICE_SAT = 21;

/** A tenth of a sat for each proof: what pays 21 sat has three and costs one. */
const FEE_PPK = '100';
const FEE_SAT = 1;

describe('a username, bought with ecash of a mint that takes a fee', () => {
  let site: NutshellDeployment;
  let cashu: Wallet;
  let losesSwaps = false;

  beforeAll(async () => {
    site = await startNutshellDeployment({
      nutshell: { MINT_INPUT_FEE_PPK: FEE_PPK, FAKEWALLET_DELAY_INCOMING_PAYMENT: '0' },
      env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
      shouldDropResponse: (path) => losesSwaps && path === '/v1/swap',
    });
    cashu = new Wallet(site.mintUrl, { unit: 'sat' });
    await cashu.loadMint();
  }, 60_000);

  afterAll(() => site[Symbol.asyncDispose]());

  it.each([
    ['exactly', PRICE_SAT],
    // As cdk's wallet does.
    ['withfee', PRICE_SAT + FEE_SAT],
  ])(
    'is paid with the price, or with the fee on top (%s)',
    async (name, amountSat) => {
      const before = await earnedSat();
      const token = encode(await proofs(amountSat));
      expect((await buyUsername(newWallet(), name, token)).status).toBe(201);
      expect((await earnedSat()) - before).toBe(amountSat - FEE_SAT);
    },
    30_000,
  );

  it('rejects a token that is too small, forged or spent, and the buyer keeps it', async () => {
    const wallet = newWallet();
    const good = await proofs(PRICE_SAT);
    const short = encode(await proofs(PRICE_SAT - 1));
    expect((await buyUsername(wallet, 'rejected', short)).body.message).toMatch(/worth 20 sat/);
    const unsigned = good.map(({ id, amount, C, secret }) => ({
      id,
      amount,
      C,
      secret: `${secret}0`,
    }));
    const rejection = await buyUsername(wallet, 'rejected', encode(unsigned));
    expect(rejection).toMatchObject({
      status: 402,
      body: { message: 'The mint does not accept the token.' },
    });
    const spent = await proofs(PRICE_SAT);
    await cashu.receive(spent);
    const rejectionOfSpent = await buyUsername(wallet, 'rejected', encode(spent));
    expect(rejectionOfSpent).toMatchObject({
      status: 402,
      body: { message: 'The token has already been spent.' },
    });
    expect((await buyUsername(wallet, 'rejected', encode(good))).status).toBe(201);
  }, 60_000);

  it('is sold although the response to the swap is lost, because the mint restores the signatures', async () => {
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

  it('earns ecash that the operator can withdraw as tokens', async () => {
    const store = new Store(site.database.db);
    const sealer = createTreasurySealer(testConfig(site.mintUrl));
    const treasury = sealer && new Treasury({ store, sealer, clock: Date.now });
    const before = await earnedSat();
    expect(before).toBeGreaterThan(60);

    const part = await treasury?.withdraw({ mintUrl: null, amountSat: 16 });
    if (part?.outcome !== 'token') {
      throw new Error(`no token: ${JSON.stringify(part)}`);
    }
    const received = await cashu.receive(part.token);
    const sum = received.reduce((sat, { amount }) => sat + amount.toNumber(), 0);
    expect(sum).toBe(16 - FEE_SAT);

    const rest = await treasury?.withdraw({ mintUrl: null, amountSat: null });
    if (rest?.outcome !== 'token') {
      throw new Error(`no token: ${JSON.stringify(rest)}`);
    }
    expect(rest.amountSat).toBe(before - 16);
    const { proofs: restOf } = cashu.decodeToken(rest.token);
    const states = await cashu.checkProofsStates(restOf);
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set(['UNSPENT']));
  }, 60_000);

  function newWallet(): TestWallet {
    return new TestWallet(site.service.publicOrigin);
  }

  /** New proofs; Nutshell’s fake backend pays every invoice. */
  async function proofs(amountSat: number): Promise<Proof[]> {
    const quote = await cashu.createMintQuoteBolt11(amountSat);
    await cashu.checkMintQuoteBolt11(quote.quote);
    return await cashu.mintProofsBolt11(amountSat, quote.quote);
  }

  function encode(tokens: Proof[]): string {
    return getEncodedToken({ mint: site.mintUrl, unit: 'sat', proofs: tokens });
  }

  async function earnedSat(): Promise<number> {
    const rows = await site.database.db
      .selectFrom('treasury_proofs')
      .select('amount_sat')
      .execute();
    return rows.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0);
  }
});
