import { expect, it, onTestFinished } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { sumOfAmounts } from '../../src/domain/ecash.ts';
import { verifyKeysetKeys } from '../../src/ecash/outputs.ts';
import { EcashClient } from '../../src/mint/ecash-client.ts';
import { KeysetCache } from '../../src/mint/keyset-cache.ts';
import { GuardedFetch } from '../../src/net/guarded-fetch.ts';
import { type Melt, MeltEcash } from '../../src/usecases/melt-ecash.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { invoiceFor } from '../helpers/scripted-mint.ts';
import { TEST_TREASURY_SECRET } from '../helpers/world.ts';

/** What becomes of a Lightning payment where its mint is slow, forgets, or contradicts itself. */

type Mints = ConstructorParameters<typeof MeltEcash>[0]['mints'];

const LOST = { outcome: 'unavailable', reason: 'timed out' } as const;

it('a payment that the mint makes just after it was asked how it stands is paid, with its change', async () => {
  const { client, melt, resume } = await openMelt();
  let looks = 0;
  const end = await resume(melt, {
    melt: async () => LOST,
    checkState: async (mintUrl, ys) => {
      looks += 1;
      if (looks === 2) {
        // The request that was given up arrives between the two questions of the second look.
        await client.melt(mintUrl, await melt.request());
      }
      return client.checkState(mintUrl, ys);
    },
  });
  expect(end).toMatchObject({ outcome: 'paid' });
  expect(end.outcome === 'paid' ? sumOfAmounts(end.change) : 0).toBe(64 - 20 - 3);
});

it('a payment is not given up for what was found before it was asked for once more', async () => {
  const { client, melt, resume } = await openMelt({ blankCount: 0 });
  let looks = 0;
  const end = await resume(melt, {
    melt: async () => LOST,
    checkState: async (mintUrl, ys) => {
      looks += 1;
      if (looks === 2) {
        await client.melt(mintUrl, await melt.request());
      }
      return client.checkState(mintUrl, ys);
    },
  });
  expect(end).toMatchObject({ outcome: 'doubtful' });
});

it('a payment whose quote the mint has forgotten is known by its change', async () => {
  const { client, melt, resume } = await openMelt();
  await client.melt(melt.mintUrl, await melt.request());
  const end = await resume(melt, { readMeltQuote: async () => ({ outcome: 'not_found' }) });
  expect(end).toMatchObject({ outcome: 'paid' });
  expect(end.outcome === 'paid' ? sumOfAmounts(end.change) : 0).toBe(64 - 20 - 3);
});

it('a forgotten payment is not settled while the mint does not say what it signed', async () => {
  const { client, melt, resume } = await openMelt();
  await client.melt(melt.mintUrl, await melt.request());
  const end = await resume(melt, {
    readMeltQuote: async () => ({ outcome: 'not_found' }),
    restore: async () => LOST,
  });
  expect(end).toMatchObject({ outcome: 'unsettled' });
});

it('a forgotten payment without outputs for change is said to have been made probably', async () => {
  const { client, melt, resume } = await openMelt({ blankCount: 0 });
  await client.melt(melt.mintUrl, await melt.request());
  const end = await resume(melt, { readMeltQuote: async () => ({ outcome: 'not_found' }) });
  expect(end).toMatchObject({
    outcome: 'failed',
    haveSpent: true,
    reason: expect.stringContaining('the payment was probably made'),
  });
});

it('ecash that was spent elsewhere, of which nothing comes back, ends the payment', async () => {
  const { mint, melt, resume } = await openMelt();
  const payer = await EcashPayer.open(mint);
  await payer.wallet.receive(melt.token);
  expect(await resume(melt, {})).toEqual({
    outcome: 'failed',
    haveSpent: true,
    reason: 'the proofs were spent before',
  });
});

/** A payment of 20 sat with 64 sat, of which 3 are for the way; it was doubted a while ago. */
async function openMelt({ blankCount = 6 } = {}) {
  const mint = await TestMint.start({ switches: { meltFeeReserveSat: 10, meltFeeSat: 3 } });
  onTestFinished(() => mint.close());
  const fetch = new GuardedFetch({ allowPrivateNetworks: true });
  onTestFinished(() => fetch.close());
  const client = new EcashClient({ fetch, clock: Date.now });
  const keysets = new KeysetCache({ client, verify: verifyKeysetKeys, clock: Date.now });
  const payer = await EcashPayer.open(mint);
  const proofs = await payer.proofs(64);
  const inputs = proofs.map(({ id, amount, secret, C }) => ({
    id,
    amount: amount.toNumber(),
    secret,
    C,
  }));
  const created = await client.createMeltQuote(mint.url, invoiceFor(20_000));
  const quoteId = created.outcome === 'created' ? created.quote.quoteId : '';
  const plain: Melt = {
    id: 'a withdrawal',
    mintUrl: mint.url,
    quoteId,
    inputs,
    blanks: { keysetId: inputs[0]?.id ?? '', count: blankCount },
    isPayable: true,
    isSecondLook: true,
    keepAtIt: async () => true,
  };
  const meltWith = (overrides: Partial<Mints>) => {
    const mints: Mints = {
      melt: (...args) => client.melt(...args),
      readMeltQuote: (...args) => client.readMeltQuote(...args),
      checkState: (...args) => client.checkState(...args),
      restore: (...args) => client.restore(...args),
      ...overrides,
    };
    return new MeltEcash({ mints, keysets, treasurySecret: TEST_TREASURY_SECRET });
  };
  /** Just what would be sent. */
  const request = async () => {
    const sent = Promise.withResolvers<Parameters<Mints['melt']>[1]>();
    await meltWith({
      melt: async (_, body) => {
        sent.resolve(body);
        return { outcome: 'rate_limited', retryAfterMs: null };
      },
    }).begin(plain);
    return sent.promise;
  };
  return {
    mint,
    client,
    melt: { ...plain, request, token: payer.encode(proofs) },
    resume: (melt: Melt, overrides: Partial<Mints>) => meltWith(overrides).resume(melt),
  };
}
