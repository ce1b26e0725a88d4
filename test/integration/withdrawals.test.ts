import { afterEach, describe, expect, it, vi } from 'vitest';
import { Sealer } from '../../src/ecash/seal.ts';
import type { Database } from '../../src/store/database.ts';
import { ShowTreasury } from '../../src/usecases/show-treasury.ts';
import { startLnurlServer } from '../helpers/lnurl-server.ts';
import { invoiceFor } from '../helpers/scripted-mint.ts';
import {
  type Fault,
  lightningAddress,
  type TreasuryProcess,
  TreasuryWorld,
} from '../helpers/treasury.ts';
import { useDatabase } from '../helpers/use-database.ts';
import { TEST_TREASURY_SECRET } from '../helpers/world.ts';

/** Money that leaves the treasury, or comes back, while processes die and answers are lost. */

const FAULTS: readonly Fault[] = [
  'dies before',
  'dies after',
  'loses the request',
  'loses the answer',
];

/** Two sats for each proof that is spent: to be seen in every sum. */
const INPUT_FEE_PPK = 2_000;

const EVERYTHING = { mintUrl: null, amountSat: null };

let database: Database;

useDatabase((opened) => {
  database = opened;
});

afterEach(async () => {
  await database.db.deleteFrom('treasury_proofs').execute();
  await database.db.deleteFrom('treasury_withdrawals').execute();
});

describe('a token of an exact amount', () => {
  it('is worth just that, and the rest stays, less the fee', async () => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    await world.earn(64);
    const { withdraw } = world.start();
    const withdrawal = await withdraw.asToken({ mintUrl: null, amountSat: 21 });
    expect(withdrawal).toMatchObject({ outcome: 'token', amountSat: 21, feeSat: 2, leftSat: 41 });
    expect(await world.spendableSat()).toBe(41);
    const token = withdrawal.outcome === 'token' ? withdrawal.token : '';
    // 16, 4 and 1 are three proofs, each with its fee.
    expect(await world.redeem(token)).toBe(21 - 3 * 2);
  });

  it('needs no swap where the proofs are there already', async () => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    await world.earn(21, 8);
    const process = world.start();
    const withdrawal = await process.withdraw.asToken({ mintUrl: null, amountSat: 24 });
    expect(withdrawal).toMatchObject({ outcome: 'token', feeSat: 0, leftSat: 5 });
    expect(process.requests).toEqual([]);
  });

  it('is refused where fee and amount together are more than there is', async () => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    await world.earn(32);
    const { withdraw } = world.start();
    expect(await withdraw.asToken({ mintUrl: null, amountSat: 31 })).toEqual({
      outcome: 'short',
      neededSat: 31,
      availableSat: 30,
    });
    expect(await withdraw.asToken({ mintUrl: null, amountSat: 30 })).toMatchObject({
      outcome: 'token',
      leftSat: 0,
    });
  });

  it('is made in the new keyset where the mint changes its keys meanwhile, and its fee', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    const process = world.start();
    // By now it knows the old one, and for some seconds it asks for no newer one.
    await process.withdraw.asToken({ mintUrl: null, amountSat: 65 });
    world.clock.advance(10_000);
    const newKeysetId = world.mint.rotateKeyset({ inputFeePpk: INPUT_FEE_PPK });
    const withdrawal = await process.withdraw.asToken({ mintUrl: null, amountSat: 5 });
    expect(withdrawal).toMatchObject({ outcome: 'token', amountSat: 5 });
    expect(await world.spendableSat()).toBe(59);
    const id = withdrawal.outcome === 'token' ? withdrawal.id : '';
    expect((await world.store.withdrawals.find(id))?.detail).toMatchObject({
      plans: [{ keysetId: expect.any(String) }, { keysetId: newKeysetId }],
    });
  });

  it.each(FAULTS)('survives at every request a process that %s', async (fault) => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    const begin = ({ withdraw }: TreasuryProcess) =>
      withdraw.asToken({ mintUrl: null, amountSat: 21 });
    await atEachRequest(world, fault, begin, (heir, n, beforeSat) =>
      expectTokensAndRest(world, heir, n, beforeSat),
    );
  });

  it.each(FAULTS)('survives keys that change meanwhile, and a process that %s', async (fault) => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    let hold = { release: () => {} };
    const begin = ({ withdraw }: TreasuryProcess) => {
      const swapping = world.mint.hold('POST /v1/swap', 'before');
      void swapping.reached.then(() => {
        world.mint.rotateKeyset();
        world.clock.advance(10_000);
        swapping.release();
      });
      hold = swapping;
      return withdraw.asToken({ mintUrl: null, amountSat: 21 });
    };
    await atEachRequest(world, fault, begin, async (heir, n, beforeSat) => {
      // Where no swap was sent, the next one is that of whoever redeems the token.
      hold.release();
      await expectTokensAndRest(world, heir, n, beforeSat);
    });
  });
});

describe('all there is as a token', () => {
  it('is the proofs as they are: the mint hears nothing, and takes nothing', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21, 21, 100);
    const process = world.start();
    const withdrawal = await process.withdraw.asToken(EVERYTHING);
    expect(withdrawal).toMatchObject({ outcome: 'token', amountSat: 142, feeSat: 0, leftSat: 0 });
    expect(process.requests).toEqual([]);
    expect(await world.redeem(withdrawal.outcome === 'token' ? withdrawal.token : '')).toBe(142);
    expect(await process.withdraw.asToken(EVERYTHING)).toEqual({ outcome: 'empty' });
  });

  it('is printed again until somebody redeems it', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const { withdraw, show } = world.start();
    const withdrawal = await withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    expect(await show.token(id)).toEqual({
      outcome: 'token',
      token,
      amountSat: 21,
      standing: 'unredeemed',
    });
    expect((await show.overview()).handedOut).toHaveLength(1);
    await world.redeem(token);
    expect(await show.token(id)).toMatchObject({ outcome: 'redeemed' });
    expect((await show.overview()).handedOut).toEqual([]);
    expect(await world.store.treasury.listOf(id)).toEqual([]);
  });

  it('goes to one of two who ask at once, or to each a part of it', async () => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    await world.earn(64, 64);
    const [one, other] = [world.start(), world.start()];
    const both = await Promise.all([
      one.withdraw.asToken(EVERYTHING),
      other.withdraw.asToken(EVERYTHING),
    ]);
    expect(both.map(({ outcome }) => outcome).sort()).toEqual(['empty', 'token']);
    await world.earn(64, 64);
    const parts = await Promise.all([
      one.withdraw.asToken({ mintUrl: null, amountSat: 50 }),
      other.withdraw.asToken({ mintUrl: null, amountSat: 50 }),
    ]);
    expect(parts.map(({ outcome }) => outcome)).toEqual(['token', 'token']);
    expect(await world.spendableSat()).toBe(128 - 2 * 52);
  });

  it('is found gone where another takes it between the first look and the second', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const [slow, quick] = [world.start(), world.start()];
    const { treasury } = slow.store;
    const balances = treasury.balances.bind(treasury);
    vi.spyOn(treasury, 'balances').mockImplementationOnce(async () => {
      const seen = await balances();
      expect(await quick.withdraw.asToken(EVERYTHING)).toMatchObject({ outcome: 'token' });
      return seen;
    });
    expect(await slow.withdraw.asToken(EVERYTHING)).toEqual({ outcome: 'empty' });
  });

  it('is not opened with another secret, and left as it is', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const stranger = world.start({ secret: 'yet another secret, as long as it has to be' });
    expect(await stranger.withdraw.asToken(EVERYTHING)).toMatchObject({ outcome: 'other_secret' });
    expect(await world.balanceSat()).toBe(21);
    const withdrawal = await world.start().withdraw.asToken(EVERYTHING);
    const id = withdrawal.outcome === 'token' ? withdrawal.id : '';
    expect(await stranger.show.token(id)).toMatchObject({ outcome: 'other_secret' });
    expect(await stranger.withdraw.reclaim(id)).toMatchObject({ outcome: 'other_secret' });
    // It was handed out: only who has it needs it.
    expect(await world.store.treasury.hasSealed()).toBe(false);
  });
});

describe('a token that is taken back', () => {
  it('is worth nothing any more, and the money is in the treasury, less the fee', async () => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    await world.earn(21);
    const { withdraw, show } = world.start();
    const withdrawal = await withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    expect(await withdraw.reclaim(id)).toMatchObject({
      outcome: 'reclaimed',
      amountSat: 15,
      feeSat: 6,
    });
    expect(await world.spendableSat()).toBe(15);
    await expect(world.redeem(token)).rejects.toThrow();
    expect(await show.token(id)).toMatchObject({ outcome: 'no_token' });
    expect(await withdraw.reclaim(id)).toEqual({ outcome: 'no_token' });
  });

  it('stays with whoever redeemed it first', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const { withdraw } = world.start();
    const withdrawal = await withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    await world.redeem(token);
    expect(await withdraw.reclaim(id)).toEqual({ outcome: 'redeemed' });
    expect(await world.balanceSat()).toBe(0);
  });

  it('stays with whoever redeems it at the very moment', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const { withdraw, show } = world.start();
    const withdrawal = await withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    const hold = world.mint.hold('POST /v1/swap', 'before');
    const reclaiming = withdraw.reclaim(id);
    await hold.reached;
    expect(await show.token(id)).toMatchObject({ outcome: 'no_token' });
    await world.redeem(token);
    hold.release();
    expect(await reclaiming).toMatchObject({ outcome: 'undone' });
    expect(await show.token(id)).toMatchObject({ outcome: 'redeemed' });
    expect(await world.balanceSat()).toBe(0);
  });

  it('says where the money is when taking it back comes to nothing', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(21);
    const { withdraw } = world.start();
    const withdrawal = await withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    const hold = world.mint.hold('POST /v1/swap', 'before');
    const reclaiming = withdraw.reclaim(id);
    await hold.reached;
    await world.redeem(token);
    hold.release();
    expect(await reclaiming).toMatchObject({
      outcome: 'undone',
      returnedTo: 'token',
      returnedSat: 21,
    });
  });

  it('is redeemed where its proofs were spent while it was looked at and taken back at once', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(1, 2, 4);
    const process = world.start();
    const withdrawal = await process.withdraw.asToken(EVERYTHING);
    const { id, token } = withdrawal.outcome === 'token' ? withdrawal : { id: '', token: '' };
    await world.redeem(token);
    // As it is left where a look and taking it back each forget a part of it.
    const kept = await world.store.treasury.listOf(id);
    await world.store.treasury.forget(
      id,
      kept.map(({ y }) => y),
    );
    expect(await process.withdraw.reclaim(id)).toEqual({ outcome: 'redeemed' });
    expect(await process.show.token(id)).toMatchObject({ outcome: 'redeemed' });
    expect((await process.show.overview()).handedOut).toEqual([]);
  });

  it('of more proofs than a mint takes in one question is asked for in several', async () => {
    const world = await TreasuryWorld.open(database);
    const { store, clock } = world;
    const id = 'a token of many proofs';
    const proofs = Array.from({ length: 1_001 }, (_, n) => ({
      y: `02${n.toString(16).padStart(64, '0')}`,
      mintUrl: world.mint.url,
      keysetId: 'any',
      amountSat: 1,
      proof: 'sealed',
    }));
    await store.withdrawals.open(
      {
        id,
        mintUrl: world.mint.url,
        amountSat: proofs.length,
        createdAtMs: clock.now(),
        detail: { kind: 'token', plans: [] },
      },
      'a run',
    );
    await store.withdrawals.finish(id, 'a run', 0, clock.now());
    await store.treasury.addFor(id, proofs, clock.now());
    const asked: number[] = [];
    const show = new ShowTreasury({
      store,
      mints: {
        checkState: async (_, ys) => {
          asked.push(ys.length);
          return { outcome: 'found', states: new Map(ys.map((y) => [y, 'UNSPENT'])) };
        },
      },
      sealer: new Sealer(TEST_TREASURY_SECRET),
      clock: clock.now,
    });
    expect((await show.overview()).handedOut).toMatchObject([{ standing: 'unredeemed' }]);
    expect(asked).toEqual([1_000, 1]);
  });

  it('is shown however many newer ones there are, and each is looked at', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    const { withdraw, show } = world.start();
    const oldest = await withdraw.asToken(EVERYTHING);
    await world.earn(...Array(101).fill(1));
    for (let made = 0; made < 101; made += 1) {
      world.clock.advance(1_000);
      await withdraw.asToken({ mintUrl: null, amountSat: 1 });
    }
    const { handedOut } = await show.overview();
    expect(handedOut).toHaveLength(102);
    expect(handedOut.at(-1)).toMatchObject({
      withdrawal: { id: oldest.outcome === 'token' ? oldest.id : '' },
      standing: 'unredeemed',
    });
  });

  it.each(FAULTS)('is in one place at every request of a process that %s', async (fault) => {
    const world = await TreasuryWorld.open(database, { inputFeePpk: INPUT_FEE_PPK });
    let out = { id: '', token: '' };
    const begin = async (process: TreasuryProcess) => {
      const withdrawal = await world.start().withdraw.asToken(EVERYTHING);
      out = withdrawal.outcome === 'token' ? withdrawal : out;
      return process.withdraw.reclaim(out.id);
    };
    await atEachRequest(world, fault, begin, async (heir, n, beforeSat) => {
      expect((await heir.show.overview()).openWithdrawals).toEqual([]);
      const shown = await heir.show.token(out.id);
      const spendableSat = await world.spendableSat();
      if (shown.outcome === 'token') {
        expect({ n, spendableSat }).toEqual({ n, spendableSat: 0 });
        await world.redeem(out.token);
      } else {
        const { withdrawals } = await heir.show.withdrawals();
        const back = withdrawals.find(
          ({ withdrawal: { detail } }) => detail.kind === 'reclaim' && detail.of === out.id,
        );
        expect({ n, spendableSat }).toEqual({
          n,
          spendableSat: beforeSat - (back?.withdrawal.feeSat ?? 0),
        });
        await expect(world.redeem(out.token)).rejects.toThrow();
      }
    });
  });
});

describe('a payment to a Lightning address', () => {
  it('is refused where the mint pays no invoices, before anything is spent', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    world.mint.switches.meltDisabled = true;
    const lnurl = await startLnurlServer();
    const { withdraw } = world.start();
    expect(await withdraw.toAddress(EVERYTHING, lightningAddress(lnurl.address))).toEqual({
      outcome: 'mint_refused',
      reason: 'it pays none, or keeps the change (NUT-05, NUT-08)',
    });
    expect(lnurl.asked).toEqual([]);
  });

  it('costs the amount and what the way took, and the rest comes back', async () => {
    const world = await TreasuryWorld.open(database, {
      inputFeePpk: INPUT_FEE_PPK,
      switches: { meltFeeReserveSat: 10, meltFeeSat: 3 },
    });
    await world.earn(100);
    const lnurl = await startLnurlServer();
    const { withdraw } = world.start();
    // 64 and 32 are chosen: 96 less 4 for them, less 50, less 3 for the way.
    const wish = { mintUrl: null, amountSat: 50 };
    expect(await withdraw.toAddress(wish, lightningAddress(lnurl.address))).toMatchObject({
      outcome: 'paid',
      amountSat: 50,
      feeSat: 2 + 3,
      changeSat: 9,
    });
    expect(await world.spendableSat()).toBe(100 - 50 - 5);
    expect(paidSat(world)).toEqual([50]);
  });

  it('takes all there is where no amount is said, but for the fees', async () => {
    const world = await TreasuryWorld.open(database, {
      inputFeePpk: INPUT_FEE_PPK,
      switches: { meltFeeReserveSat: 7, meltFeeSat: 7 },
    });
    await world.earn(64, 32, 4);
    const lnurl = await startLnurlServer();
    const { withdraw } = world.start();
    const paid = await withdraw.toAddress(EVERYTHING, lightningAddress(lnurl.address));
    expect(paid).toMatchObject({ outcome: 'paid', amountSat: 100 - 6 - 7, changeSat: 0 });
    expect(await world.balanceSat()).toBe(0);
    expect(paidSat(world)).toEqual([87]);
  });

  it('of all there is, where that is less than what the way may cost, is told to be short', async () => {
    const world = await TreasuryWorld.open(database, { switches: { meltFeeReserveSat: 10 } });
    await world.earn(5);
    const to = lightningAddress((await startLnurlServer()).address);
    expect(await world.start().withdraw.toAddress(EVERYTHING, to)).toEqual({
      outcome: 'short',
      neededSat: 15,
      availableSat: 5,
    });
  });

  it('with ecash that was spent before says what of it is gone', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64, 32);
    const process = world.start();
    // As after a backup of the database was restored.
    const [large] = await world.store.treasury.listFree(world.mint.url, 1);
    const token = await process.withdraw.asToken({ mintUrl: null, amountSat: 64 });
    await world.redeem(token.outcome === 'token' ? token.token : '');
    await world.store.treasury.add(large === undefined ? [] : [large], 'a backup', 0);
    const id = token.outcome === 'token' ? token.id : '';
    await world.store.treasury.move([large?.y ?? ''], id, null);

    const to = lightningAddress((await startLnurlServer()).address);
    await process.withdraw.toAddress({ mintUrl: null, amountSat: 80 }, to);
    await world.recover(process);
    const { withdrawals } = await process.show.withdrawals();
    expect(withdrawals.map(({ withdrawal }) => withdrawal)).toContainEqual(
      expect.objectContaining({
        state: 'undone',
        reason: expect.stringMatching(/64 sat were spent and are gone$/),
      }),
    );
    expect(await world.balanceSat()).toBe(32);
    expect(paidSat(world)).toEqual([]);
  });

  it('that gives back more than is due has no fee below nothing', async () => {
    const world = await TreasuryWorld.open(database, {
      switches: { meltFeeReserveSat: 2, meltFeeSat: 0 },
    });
    await world.earn(32);
    const to = lightningAddress((await startLnurlServer()).address);
    const process = world.start();
    const hold = world.mint.hold('POST /v1/melt/bolt11', 'before');
    const paying = process.withdraw.toAddress({ mintUrl: null, amountSat: 20 }, to);
    await hold.reached;
    const [quote] = [...world.mint.meltQuotes.values()];
    Object.assign(quote ?? {}, { amountSat: 15 });
    hold.release();
    expect(await paying).toMatchObject({ outcome: 'paid', feeSat: 0, changeSat: 17 });
    expect(await world.spendableSat()).toBe(17);
  });

  it('that cannot be worked on is listed with that, and tried again', async () => {
    const world = await TreasuryWorld.open(database, { switches: { meltPayment: 'pending' } });
    await world.earn(64);
    const to = lightningAddress((await startLnurlServer()).address);
    await world.start().withdraw.toAddress({ mintUrl: null, amountSat: 20 }, to);
    world.clock.advance(3_600_000);
    const stranger = world.start({ secret: 'yet another secret, as long as it has to be' });
    await stranger.settle.run(new AbortController().signal);
    expect((await stranger.show.overview()).openWithdrawals).toMatchObject([
      { tries: 2, reason: 'cannot be settled; the log says why' },
    ]);
  });

  it('that fails leaves the money where it was', async () => {
    const world = await TreasuryWorld.open(database, { switches: { meltPayment: 'failed' } });
    await world.earn(100);
    const lnurl = await startLnurlServer();
    const { withdraw } = world.start();
    const to = lightningAddress(lnurl.address);
    expect(await withdraw.toAddress({ mintUrl: null, amountSat: 50 }, to)).toMatchObject({
      outcome: 'undone',
      reason: expect.stringMatching(/payment failed/i),
    });
    expect(await world.spendableSat()).toBe(100);
  });

  it.each([
    ['paid', 100 - 50 - 1],
    ['failed', 100],
  ] as const)('that is under way ends by itself when it is %s', async (ending, leftSat) => {
    const world = await TreasuryWorld.open(database, { switches: { meltPayment: 'pending' } });
    await world.earn(100);
    const lnurl = await startLnurlServer();
    const { withdraw, settle, show } = world.start();
    const to = lightningAddress(lnurl.address);
    const begun = await withdraw.toAddress({ mintUrl: null, amountSat: 50 }, to);
    expect(begun).toMatchObject({ outcome: 'under_way', reason: 'the payment is under way' });
    world.clock.advance(60_000);
    await settle.run(new AbortController().signal);
    expect((await show.overview()).openWithdrawals).toMatchObject([
      { state: 'open', tries: 2, reason: 'the payment is under way' },
    ]);
    const [quote] = [...world.mint.meltQuotes.values()];
    // What failed once is not to be tried for ever: the invoice expires meanwhile.
    world.mint.switches.meltPayment = 'failed';
    world.mint.settleMelt(String(quote?.id), ending);
    world.clock.advance(3_600_000);
    await settle.run(new AbortController().signal);
    world.clock.advance(3_600_000);
    await settle.run(new AbortController().signal);
    expect((await show.overview()).openWithdrawals).toEqual([]);
    expect(await world.spendableSat()).toBe(leftSat);
    expect(paidSat(world)).toEqual(ending === 'paid' ? [50] : []);
  });

  it.each(FAULTS)(
    'is made once or not at all at every request of a process that %s',
    async (fault) => {
      const world = await TreasuryWorld.open(database, {
        inputFeePpk: INPUT_FEE_PPK,
        switches: { meltFeeReserveSat: 10, meltFeeSat: 3 },
      });
      const to = lightningAddress((await startLnurlServer()).address);
      const begin = ({ withdraw }: TreasuryProcess) =>
        withdraw.toAddress({ mintUrl: null, amountSat: 20 }, to);
      let paidBefore = 0;
      await atEachRequest(world, fault, begin, async (heir, n, beforeSat) => {
        const { openWithdrawals } = await heir.show.overview();
        expect({ n, openWithdrawals }).toEqual({ n, openWithdrawals: [] });
        const paid = paidSat(world).length - paidBefore;
        expect(paid).toBeLessThanOrEqual(1);
        paidBefore += paid;
        const [latest] = (await heir.show.withdrawals()).withdrawals;
        const spentSat = paid === 1 ? 20 + (latest?.withdrawal.feeSat ?? 0) : 0;
        expect({ n, sat: await world.spendableSat() }).toEqual({ n, sat: beforeSat - spentSat });
      });
      // What was written down before the process died is finished.
      expect(paidBefore).toBeGreaterThan(1);
    },
  );

  it('of another process that is still at it is left alone, and so is what it finds out late', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    const lnurl = await startLnurlServer();
    const slow = world.start({ answerWithinMs: 0 });
    const other = world.start();
    const hold = world.mint.hold('POST /v1/melt/bolt11', 'after');
    const begun = await slow.withdraw.toAddress(
      { mintUrl: null, amountSat: 20 },
      lightningAddress(lnurl.address),
    );
    expect(begun).toMatchObject({ outcome: 'under_way', reason: 'the mint has not answered yet' });
    await hold.reached;
    await other.settle.run(new AbortController().signal);
    expect((await other.show.overview()).openWithdrawals).toHaveLength(1);
    // Now it is taken for dead, and answers after all.
    await world.forgetDrivers();
    await other.settle.run(new AbortController().signal);
    hold.release();
    await slow.settle.idle();
    expect((await other.show.overview()).openWithdrawals).toEqual([]);
    expect(await world.spendableSat()).toBe(64 - 20 - 1);
    expect(paidSat(world)).toEqual([20]);
  });
});

describe('many withdrawals at once', () => {
  it('lose nothing at a mint that loses requests and answers, whoever finishes them', async () => {
    const world = await TreasuryWorld.open(database, {
      inputFeePpk: INPUT_FEE_PPK,
      switches: { meltFeeReserveSat: 10, meltFeeSat: 3 },
    });
    await world.earn(...Array(12).fill(100));
    const to = lightningAddress((await startLnurlServer()).address);
    const processes = [world.start(), world.start(), world.start()];
    world.mint.switches.chaos = { rates: { cutBefore: 0.1, cutAfter: 0.1, error: 0.1 } };
    await Promise.all(
      processes.flatMap(({ withdraw }) =>
        [7, 13, 29].flatMap((amountSat) => [
          withdraw.asToken({ mintUrl: null, amountSat }),
          withdraw.toAddress({ mintUrl: null, amountSat }, to),
        ]),
      ),
    );
    await Promise.all(processes.map((process) => world.recover(process)));
    world.mint.switches.chaos = null;
    await world.recover(world.start());

    const { openWithdrawals, handedOut } = await world.start().show.overview();
    expect(openWithdrawals).toEqual([]);
    const { withdrawals } = await world.start().show.withdrawals();
    const done = withdrawals.filter(({ withdrawal: { state } }) => state === 'done');
    expect(done.length).toBeGreaterThan(3);
    const spentSat = done.reduce(
      (sum, { withdrawal: { amountSat, feeSat } }) => sum + amountSat + (feeSat ?? 0),
      0,
    );
    expect(await world.balanceSat()).toBe(1_200 - spentSat);
    expect(await world.spendableSat()).toBe(1_200 - spentSat);
    const lightningSat = done
      .filter(({ withdrawal }) => withdrawal.detail.kind === 'lightning')
      .map(({ withdrawal }) => withdrawal.amountSat);
    expect(lightningSat.sort()).toEqual(paidSat(world).sort());
    for (const { withdrawal, standing } of handedOut) {
      expect(standing).toBe('unredeemed');
      const shown = await world.start().show.token(withdrawal.id);
      await world.redeem(shown.outcome === 'token' ? shown.token : '');
    }
  });
});

describe('a recipient that cannot be paid', () => {
  it('is told apart from one that does not answer, and nothing is spent', async () => {
    const world = await TreasuryWorld.open(database);
    await world.earn(64);
    const { withdraw } = world.start();
    const pay = async (address: string) =>
      withdraw.toAddress({ mintUrl: null, amountSat: 20 }, lightningAddress(address));
    const nobody = (await startLnurlServer()).address.replace('operator', 'nobody');
    expect(await pay(nobody)).toMatchObject({
      failure: { outcome: 'refused', reason: 'Nobody of[31m this name.' },
    });
    const dearer = await startLnurlServer({
      terms: (good) => ({ ...good, minSendable: 20_001 }),
    });
    expect(await pay(dearer.address)).toMatchObject({ outcome: 'out_of_range', minSat: 21 });
    const cheating = await startLnurlServer({
      invoice: (amountMsat) => ({ pr: invoiceFor(amountMsat + 1_000) }),
    });
    expect(await pay(cheating.address)).toMatchObject({
      failure: { outcome: 'invalid', reason: 'it gave an invoice for another amount' },
    });
    const broken = await startLnurlServer({ status: 500 });
    expect(await pay(broken.address)).toMatchObject({
      failure: { outcome: 'unavailable', reason: 'status 500' },
    });
    const other = await startLnurlServer({ terms: () => ({ tag: 'withdrawRequest' }) });
    expect(await pay(other.address)).toMatchObject({ failure: { outcome: 'invalid' } });
    expect(await world.balanceSat()).toBe(64);
    expect(world.mint.meltQuotes.size).toBe(0);
  });
});

/** All is settled; tokens of 21 sat are out, as good as new, and the rest is in the treasury. */
async function expectTokensAndRest(
  world: TreasuryWorld,
  heir: TreasuryProcess,
  n: number,
  beforeSat: number,
): Promise<void> {
  const { openWithdrawals, handedOut } = await heir.show.overview();
  expect({ n, openWithdrawals }).toEqual({ n, openWithdrawals: [] });
  const outSat = handedOut.length * 21;
  const feeSat = handedOut.reduce((sum, { withdrawal }) => sum + (withdrawal.feeSat ?? 0), 0);
  const sat = await world.spendableSat();
  expect({ n, sat }).toEqual({ n, sat: beforeSat - outSat - feeSat });
  for (const { withdrawal } of handedOut) {
    const shown = await heir.show.token(withdrawal.id);
    const token = shown.outcome === 'token' ? shown.token : '';
    expect(await world.faceValueSat(token)).toBe(21);
    expect(await world.redeem(token)).toBeGreaterThan(0);
  }
}

/** What was paid, payment by payment. */
function paidSat(world: TreasuryWorld): number[] {
  return [...world.mint.meltQuotes.values()]
    .filter(({ state }) => state === 'PAID')
    .map(({ amountSat }) => amountSat);
}

/**
 * Begins the same again and again, each time with one more request going well, until all do. After each
 * another process takes over, and the money is counted.
 */
async function atEachRequest(
  world: TreasuryWorld,
  fault: Fault,
  begin: (process: TreasuryProcess) => Promise<unknown>,
  check: (heir: TreasuryProcess, n: number, beforeSat: number) => Promise<void>,
): Promise<void> {
  let isStruck = true;
  let n = 0;
  for (; isStruck; n += 1) {
    await world.earn(64);
    const beforeSat = await world.balanceSat();
    const unlucky = world.start();
    const struck = unlucky.fail(n, fault).then(() => true);
    const working = begin(unlucky).then(() => false);
    isStruck = await Promise.race([struck, working]);
    // Nothing ends any more in a process that is dead.
    await (isStruck && fault.startsWith('dies') ? undefined : working);
    await world.forgetDrivers();
    const heir = world.start();
    await world.recover(heir);
    await check(heir, n, beforeSat);
  }
  // Keysets, keys and the money itself are the least.
  expect(n).toBeGreaterThan(3);
}
