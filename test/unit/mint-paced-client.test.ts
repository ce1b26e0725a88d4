import { pino } from 'pino';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { InvoiceDescription } from '../../src/domain/invoice-description.ts';
import type { CreateQuoteAnswer } from '../../src/mint/mint-client.ts';
import { MintShares } from '../../src/mint/mint-shares.ts';
import { PacedMintClient } from '../../src/mint/paced-mint-client.ts';
import { PayersTurns } from '../../src/mint/payers-turns.ts';
import { POLL_GAP_MS, RequestBudget } from '../../src/mint/request-budget.ts';

const MINT = 'https://mint.example';
const MINUTE = 60_000;

const CREATED: CreateQuoteAnswer = {
  outcome: 'created',
  quote: { quoteId: 'q', request: 'lnbc1', expiry: null, amountSat: 21, pubkey: null },
};

const REFUSED: CreateQuoteAnswer = { outcome: 'refused', status: 400, detail: 'no' };

const WORDS = { descriptionHash: 'ab'.repeat(32) };

const NO_WORDS = 'a mint gives quotes without a description, and not with one';

const BUSY: CreateQuoteAnswer = { outcome: 'unavailable', reason: 'status 500' };

describe('asking a mint', () => {
  it('is left undone while a route rests, and says for how long', async () => {
    const world = open();
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: 30_000 });
    world.nowMs += 10_000;
    expect(await world.payer()).toEqual({ outcome: 'rate_limited', retryAfterMs: 20_000 });
    expect(world.asked).toBe(1);
    expect(world.mints.waitMs(MINT, 'create')).toBe(20_000);
    expect(world.mints.waitMs(MINT, 'check')).toBe(0);
  });

  it('keeps to what the mint allows, however many payers come while it is answering', async () => {
    const world = open();
    await world.payers(20, CREATED);
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: null });
    world.nowMs += 2 * MINUTE;
    world.asked = 0;
    const answers = await world.payers(100, CREATED);
    expect(world.asked).toBe(16);
    expect(answers.filter(({ outcome }) => outcome === 'rate_limited')).toHaveLength(84);
  });

  it('leaves half of what the mint allows to others, whoever is asked for all the time', async () => {
    const world = open();
    await world.payers(20, CREATED);
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: null });
    world.nowMs += 2 * MINUTE;
    world.asked = 0;
    const flood = Array.from({ length: 100 }, () => world.payer('alice'));
    const answers = await Promise.all(flood.slice(8));
    expect(answers).toEqual(Array(92).fill({ outcome: 'share_used', retryAfterMs: MINUTE }));
    await world.payers(8, CREATED);
    expect(await Promise.all(flood.slice(0, 8))).toEqual(Array(8).fill(CREATED));
    expect(world.asked).toBe(16);
  });

  it('takes back a share of which the mint heard nothing', async () => {
    const world = open({ perRecipient: 10 });
    for (let round = 0; round < 3; round += 1) {
      const flood = Array.from({ length: 30 }, () => world.payer('alice'));
      // Eight at a time.
      const unheard: CreateQuoteAnswer = { outcome: 'unavailable', reason: 'closed' };
      await world.payers(1, unheard, unheard, unheard);
      const answers = await Promise.all(flood);
      expect(answers.filter(({ outcome }) => outcome === 'rate_limited')).toHaveLength(10);
    }
  });

  it('leaves the rest of a line undone where the mint sends the first away', async () => {
    const world = open({ perRecipient: 10 });
    const flood = Array.from({ length: 10 }, () => world.payer('alice'));
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: 30_000 });
    const answers = await Promise.all(flood);
    expect(answers).toEqual(Array(10).fill({ outcome: 'rate_limited', retryAfterMs: 30_000 }));
    // Eight of the flood, and one payer.
    expect(world.asked).toBe(9);
  });

  it('keeps nobody in a line for longer than some seconds', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const world = open({ perRecipient: 20 });
    const flood = Array.from({ length: 20 }, () => world.payer('alice'));
    expect(world.asked).toBe(8);
    vi.advanceTimersByTime(5_000);
    expect(await Promise.all(flood.slice(8))).toEqual(
      Array(12).fill({ outcome: 'share_used', retryAfterMs: 5_000 }),
    );
    await world.payers(1, CREATED);
    expect(await Promise.all(flood.slice(0, 8))).toEqual(Array(8).fill(CREATED));
    // What came to nothing is no part of the share.
    const more = Array.from({ length: 20 }, () => world.payer('alice'));
    await world.payers(1, CREATED, CREATED);
    expect((await Promise.all(more)).filter(({ outcome }) => outcome === 'created')).toHaveLength(
      12,
    );
  });

  it('is as possible as before after an exception', async () => {
    const world = open({ perRecipient: 1_000 });
    for (let bug = 0; bug < 100; bug += 1) {
      world.bug = new Error('a bug');
      await expect(world.payer('alice')).rejects.toThrow('a bug');
    }
    world.bug = null;
    const asked = world.payer('alice');
    await world.payers(1, CREATED);
    expect(await asked).toEqual(CREATED);
  });

  it.each(['too many requests in flight', 'closed'])(
    'counts for nothing where the mint heard nothing of it: %s',
    async (reason) => {
      const world = open();
      const answers = await world.payers(30, { outcome: 'unavailable', reason });
      expect(answers[0]).toEqual({ outcome: 'rate_limited', retryAfterMs: 0 });
      expect(world.mints.waitMs(MINT, 'create')).toBe(0);
      expect(world.told).toEqual([]);

      await world.payers(20, CREATED);
      await world.payers(1, { outcome: 'rate_limited', retryAfterMs: null });
      expect(world.budget.learnt(MINT, world.nowMs)?.create?.ceiling?.perWindow).toBe(16);
    },
  );

  it('counts the second try of a busy mint as the request that it is', async () => {
    const world = open();
    await world.payers(10, BUSY, CREATED);
    expect(world.asked).toBe(20);
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: null });
    const learnt = world.budget.learnt(MINT, world.nowMs)?.create;
    expect(learnt?.ceiling?.perWindow).toBe(16);
  });

  it('takes two busy answers to one payer for one failure', async () => {
    const world = open();
    expect(await world.payers(1, BUSY, BUSY)).toEqual([BUSY]);
    expect(world.asked).toBe(2);
    expect(world.mints.waitMs(MINT, 'create')).toBe(1_000);
    expect(world.told).toEqual(['a mint does not answer']);
  });

  describe.each<[string, CreateQuoteAnswer]>([
    ['500', BUSY],
    ['a refusal', REFUSED],
  ])('with words that it answers with %s', (_answer, trouble) => {
    it('is done once more without them, and counts for no failure', async () => {
      const world = open();
      expect(await world.talkers(1, WORDS, trouble, CREATED)).toEqual([CREATED]);
      expect(world.orders).toEqual([{ amountSat: 21, ...WORDS }, { amountSat: 21 }]);
      expect(world.mints.waitMs(MINT, 'create')).toBe(0);
      expect(world.told).toEqual([NO_WORDS]);
    });

    it('is done without them for some minutes, and then with them again', async () => {
      const world = open();
      await world.talkers(1, WORDS, trouble, CREATED);
      world.nowMs += 4 * MINUTE;
      await world.talkers(3, WORDS, CREATED);
      expect(world.asked).toBe(5);
      world.nowMs += MINUTE;
      await world.talkers(1, WORDS, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21, ...WORDS });
    });

    it('is done with shorter ones, which may be taken', async () => {
      const world = open();
      await world.talkers(1, { description: 'thanks a lot' }, trouble, CREATED);
      await world.talkers(1, { description: 'thanks' }, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21, description: 'thanks' });
      await world.talkers(1, { description: 'thank you very much' }, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21 });
      expect(world.asked).toBe(4);
    });

    it('is done once more however late that answer came', async () => {
      const world = open();
      const answers = world.talkers(1, WORDS);
      world.nowMs += 9_000;
      await world.answer(trouble);
      await world.answer(CREATED);
      expect(await answers).toEqual([CREATED]);
    });

    it('is done with the same words again where they were not to blame', async () => {
      const world = open();
      expect(await world.talkers(1, WORDS, trouble, BUSY)).toEqual([BUSY]);
      expect(world.mints.waitMs(MINT, 'create')).toBe(1_000);
      world.nowMs += MINUTE;
      await world.talkers(1, WORDS, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21, ...WORDS });
      expect(world.told).toEqual(['a mint does not answer', 'a mint answers again']);
    });

    it('is done without them for no longer where a clock was set back', async () => {
      const world = open();
      await world.talkers(1, WORDS, trouble, CREATED);
      world.nowMs -= 24 * 60 * MINUTE;
      await world.talkers(1, WORDS, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21, ...WORDS });
    });
  });

  it('is not tried again without words where there were none', async () => {
    const world = open();
    expect(await world.payers(1, REFUSED)).toEqual([REFUSED]);
    expect(world.asked).toBe(1);
    await world.payers(1, BUSY, CREATED);
    await world.talkers(1, WORDS, CREATED);
    expect(world.orders.at(-1)).toEqual({ amountSat: 21, ...WORDS });
  });

  it.each([
    ['a busy moment', WORDS, WORDS, BUSY],
    ['a busy moment at a short comment', { description: 'a' }, { description: 'Payment' }, BUSY],
    ['what one payer wrote', { description: 'a' }, { description: 'Payment' }, REFUSED],
  ])(
    'leaves others the words that it took a moment ago, whatever comes of %s',
    async (_, theirs, others, trouble) => {
      const world = open();
      await world.talkers(1, others, CREATED);
      expect(await world.talkers(1, theirs, trouble, CREATED)).toEqual([CREATED]);
      await world.talkers(1, others, CREATED);
      expect(world.orders.at(-1)).toEqual({ amountSat: 21, ...others });
      expect(world.told).toEqual([]);
    },
  );

  it('believes that words are to blame once none were taken for a while', async () => {
    const world = open();
    await world.talkers(1, WORDS, CREATED);
    world.nowMs += 5 * MINUTE;
    await world.talkers(1, WORDS, BUSY, CREATED);
    await world.talkers(1, WORDS, CREATED);
    expect(world.orders.at(-1)).toEqual({ amountSat: 21 });
  });

  it('tells once that words are left out, however many payers are under way', async () => {
    const world = open();
    await world.talkers(10, WORDS, REFUSED, CREATED);
    expect(world.told).toEqual([NO_WORDS]);
  });

  it('forgives a busy mint that answers the second time', async () => {
    const world = open();
    expect(await world.payers(1, BUSY, CREATED)).toEqual([CREATED]);
    expect(world.mints.waitMs(MINT, 'create')).toBe(0);
    expect(world.told).toEqual([]);
  });

  it('leaves the second try where the mint would refuse it as one too many', async () => {
    const world = open();
    await world.payers(20, CREATED);
    await world.payers(1, { outcome: 'rate_limited', retryAfterMs: null });
    world.nowMs += 2 * MINUTE;
    await world.payers(15, CREATED);
    world.asked = 0;
    expect(await world.payers(1, BUSY, CREATED)).toEqual([BUSY]);
    expect(world.asked).toBe(1);
  });

  it('tells once when a mint falls silent and once when it is back', async () => {
    const world = open();
    const silent = { outcome: 'unavailable', reason: 'timed out' } as const;
    await world.payers(3, silent);
    world.nowMs += MINUTE;
    await world.payers(1, silent);
    world.nowMs += MINUTE;
    await world.payers(2, CREATED);
    expect(world.told).toEqual(['a mint does not answer', 'a mint answers again']);
  });
});

/** A paced client of a mint that answers all payers at once, when it answers. */
function open(options: { perRecipient?: number } = {}) {
  const unanswered: ((answer: CreateQuoteAnswer) => void)[] = [];
  /** `asked`: requests that reached the mint, `orders`: what for. `told`: what went to the log. `bug`: thrown by the client. */
  const state = {
    nowMs: 1_800_000_000_000,
    asked: 0,
    orders: [] as object[],
    told: [] as string[],
    bug: null as Error | null,
  };
  let newcomers = 0;
  let payments = 0;
  const budget = new RequestBudget({ pollGapMs: POLL_GAP_MS });
  const mints = new PacedMintClient({
    client: {
      createQuote: (_mintUrl, order) => {
        if (state.bug !== null) {
          return Promise.reject(state.bug);
        }
        state.asked += 1;
        state.orders.push(order);
        return new Promise((resolve) => unanswered.push(resolve));
      },
      readQuote: unasked,
      checkQuotes: unasked,
      readInfo: unasked,
    },
    budget,
    shares: new MintShares(options.perRecipient ?? 0),
    turns: new PayersTurns({
      isBounded: options.perRecipient !== undefined,
      allowPrivateNetworks: false,
    }),
    clock: () => state.nowMs,
    log: pino({}, { write: (line: string) => state.told.push(JSON.parse(line).msg) }),
  });
  /** Pays somebody whom nobody paid before, unless it is said whom. */
  const payer = (recipient = `recipient ${newcomers++}`, words: InvoiceDescription = {}) =>
    mints.createQuote(
      MINT,
      { recipient, network: `network ${payments++}` },
      { amountSat: 21, ...words },
    );
  /** What the mint says to all who wait for a first word, or for a second one. */
  const answer = async (said: CreateQuoteAnswer) => {
    for (const tell of unanswered.splice(0)) {
      tell(said);
    }
    await turn();
  };
  /** Payers who come together; the second try of each, where there is one, has the second answer. */
  const payers = (count: number, ...said: CreateQuoteAnswer[]) => talkers(count, {}, ...said);
  /** The same, of payers whose invoices are to say something. */
  const talkers = async (
    count: number,
    words: InvoiceDescription,
    ...said: CreateQuoteAnswer[]
  ) => {
    const answers = Promise.all(Array.from({ length: count }, () => payer(undefined, words)));
    for (const word of said) {
      await answer(word);
    }
    return await answers;
  };
  return Object.assign(state, { budget, mints, payer, payers, talkers, answer });
}

/** A whole turn of the event loop, in which whoever got an answer acts on it. */
async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

function unasked(): never {
  throw new Error('payers ask for quotes alone');
}
