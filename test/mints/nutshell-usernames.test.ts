import { getEncodedToken, type Proof, sumProofs, Wallet } from '@cashu/cashu-ts';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { withdrawFromTreasury } from '../../src/usernames/treasury.ts';
import { createTreasurySealer } from '../../src/usernames/usernames-module.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { createTestConfig } from '../helpers/service/test-environment.ts';
import { type NutshellDeployment, startNutshellDeployment } from './nutshell-deployment.ts';

const PRICE_SAT = 21;

/** 0.1 sat per proof. The tokens in these tests have a few proofs, so that each fee is rounded up to 1 sat. */
const FEE_PPK = '100';
const FEE_SAT = 1;

const WITHDRAWN_SAT = 16;

describe('username purchase with ecash of a mint that charges a fee', () => {
  let deployment: NutshellDeployment;
  let cashuWallet: Wallet;
  let shouldDropSwapResponses = false;

  beforeAll(async () => {
    deployment = await startNutshellDeployment({
      nutshellEnv: { MINT_INPUT_FEE_PPK: FEE_PPK, FAKEWALLET_DELAY_INCOMING_PAYMENT: '0' },
      env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
      shouldDropResponse: (path) => shouldDropSwapResponses && path === '/v1/swap',
    });
    cashuWallet = new Wallet(deployment.mintUrl, { unit: 'sat' });
    await cashuWallet.loadMint();
  });

  afterAll(() => deployment[Symbol.asyncDispose]());

  it.each([
    { tokenValue: 'the price', name: 'exactly', amountSat: PRICE_SAT },
    // cdk's wallet adds the fee.
    { tokenValue: 'the price plus the fee', name: 'withfee', amountSat: PRICE_SAT + FEE_SAT },
  ])('accepts a token that is worth $tokenValue', async ({ name, amountSat }) => {
    const balanceBeforeSat = await readTreasuryBalanceSat();
    const token = encodeToken(await mintProofs(amountSat));
    expect((await requestUsername(newWallet(), name, token)).status).toBe(201);
    expect((await readTreasuryBalanceSat()) - balanceBeforeSat).toBe(amountSat - FEE_SAT);
  });

  it('rejects a token that is too small, forged or spent, and then accepts a valid token', async () => {
    const wallet = newWallet();
    const valid = await mintProofs(PRICE_SAT);
    const tooSmall = encodeToken(await mintProofs(PRICE_SAT - 1));
    expect((await requestUsername(wallet, 'rejected', tooSmall)).body.message).toMatch(
      /worth 20 sat/,
    );
    const forged = valid.map(({ dleq: _, ...proof }) => ({ ...proof, secret: `${proof.secret}0` }));
    const spent = await mintProofs(PRICE_SAT);
    await cashuWallet.receive(spent);
    for (const [proofs, message] of [
      [forged, 'The mint does not accept the token.'],
      [spent, 'The token has already been spent.'],
    ] as const) {
      const rejection = await requestUsername(wallet, 'rejected', encodeToken([...proofs]));
      expect(rejection).toMatchObject({ status: 402, body: { message } });
    }
    expect((await requestUsername(wallet, 'rejected', encodeToken(valid))).status).toBe(201);
  });

  it('completes the purchase if the response to the swap is lost, and returns 201 for a retry', async () => {
    const wallet = newWallet();
    const balanceBeforeSat = await readTreasuryBalanceSat();
    const token = encodeToken(await mintProofs(PRICE_SAT));
    shouldDropSwapResponses = true;
    const response = await requestUsername(wallet, 'lostresponse', token);
    shouldDropSwapResponses = false;
    expect(response.status).toBe(503);
    await vi.waitFor(
      async () => expect((await requestUsername(wallet, 'lostresponse', token)).status).toBe(201),
      { timeout: 30_000, interval: 500 },
    );
    expect((await readTreasuryBalanceSat()) - balanceBeforeSat).toBe(PRICE_SAT - FEE_SAT);
  });

  it('lets the operator withdraw the earned ecash as tokens', async () => {
    const { db } = deployment.database;
    const sealer = createTreasurySealer(createTestConfig(deployment.mintUrl));
    const treasury = { db, sealer, systemUser: 'root', clock: Date.now };
    const balanceSat = await readTreasuryBalanceSat();
    // The tests above sold four names.
    expect(balanceSat).toBeGreaterThan(3 * (PRICE_SAT - FEE_SAT));

    const withdraw = async (amountSat: number | null) => {
      const result = await withdrawFromTreasury(treasury, { mintUrl: null, amountSat });
      if (result.outcome !== 'token') {
        throw new Error(`no token: ${JSON.stringify(result)}`);
      }
      return result;
    };
    const receivedProofs = await cashuWallet.receive((await withdraw(WITHDRAWN_SAT)).token);
    expect(sumProofs(receivedProofs).toNumber()).toBe(WITHDRAWN_SAT - FEE_SAT);

    const rest = await withdraw(null);
    expect(rest.amountSat).toBe(balanceSat - WITHDRAWN_SAT);
    const { proofs } = cashuWallet.decodeToken(rest.token);
    const states = await cashuWallet.checkProofsStates(proofs);
    expect(new Set(states.map(({ state }) => state))).toEqual(new Set(['UNSPENT']));
  });

  function newWallet(): RecipientClient {
    return new RecipientClient(deployment.service.publicOrigin);
  }

  /** Mints proofs without a payment: Nutshell's fake Lightning backend pays every invoice. */
  async function mintProofs(amountSat: number): Promise<Proof[]> {
    const quote = await cashuWallet.createMintQuoteBolt11(amountSat);
    await cashuWallet.checkMintQuoteBolt11(quote.quote);
    return await cashuWallet.mintProofsBolt11(amountSat, quote.quote);
  }

  function encodeToken(proofs: Proof[]): string {
    return getEncodedToken({ mint: deployment.mintUrl, unit: 'sat', proofs });
  }

  async function readTreasuryBalanceSat(): Promise<number> {
    const rows = await deployment.database.db
      .selectFrom('treasury_proofs')
      .select('amount_sat')
      .execute();
    return rows.reduce((sum, { amount_sat }) => sum + Number(amount_sat), 0);
  }
});
