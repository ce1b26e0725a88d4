import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limit.ts';
import type { SentAnswer } from '../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { request } from '../helpers/wallet.ts';
import { chooseMint, useWorld, type World } from '../helpers/world.ts';
import {
  askedBetween,
  type Demand,
  invoiceTimes,
  type Payer,
  sendPayers,
  shareServed,
  TRUST_PAYERS_PROXY,
} from './payers.ts';
import { TEN_TIMES_FASTER } from './time-scale.ts';
import { Updates } from './updates.ts';

/** Mints that ask for a pause, raise their limits, or are down. Run at ten times the real speed. */

const time = TEN_TIMES_FASTER;
const MINUTE = 60;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

const TEST_TIMEOUT_MS = 180_000;

const world = useWorld({ env: TRUST_PAYERS_PROXY, surroundings: time.surroundings });

describe('a mint that sends Retry-After', () => {
  /** Sent in real seconds. */
  const RETRY_AFTER_SECONDS = 4;
  const REST = time.toSeconds(RETRY_AFTER_SECONDS * 1_000);

  it.concurrent.each([
    { route: CREATE, other: CHECK },
    { route: CHECK, other: CREATE },
  ] as const)(
    'is left alone that long on $route, and not longer; $other goes on',
    async ({ route, other }) => {
      await using site = await openSite({ socket: false });
      const payers = site.sendPayers({ perMinute: 60, minutes: 2 });
      await time.sleep(20);
      site.mint.rateLimitNext(route, { retryAfterSeconds: RETRY_AFTER_SECONDS });
      await payers;
      const rejections = site.answers.filter(({ status }) => status === 429);
      expect(rejections).toMatchObject([{ route }]);
      const from = time.toSeconds(rejections[0]?.sentAtMs ?? 0);
      // Requests that were under way at the rejection arrive after it.
      const later = site.requestTimes(route).filter((at) => at > from + 5 * time.latency);
      const next = Math.min(...later);
      expect(next - from).toBeGreaterThanOrEqual(REST);
      expect(next - from).toBeLessThanOrEqual(REST + 10);
      const meanwhile = site.requestTimes(other).filter((at) => at > from && at < from + REST);
      // The schedule is not scaled: in these four real seconds one or two polls are due.
      expect(meanwhile).not.toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );
});

describe('a mint that raises its limit', () => {
  const LIMITED_MINUTES = 4;
  const ADAPTING_MINUTES = 5;
  const MEASURED_MINUTES = 2;

  it.concurrent(
    'from 20 to 60 a minute is used at the new limit within 5 minutes',
    async () => {
      const payers = await raise(sliding(20), sliding(60));
      // 75 % of the limit, as at 20 a minute.
      expect(payers.after.length / MEASURED_MINUTES).toBeGreaterThanOrEqual(45);
      expect(payers.before.length / LIMITED_MINUTES).toBeLessThanOrEqual(25);
    },
    TEST_TIMEOUT_MS,
  );

  it.concurrent(
    'from 20 a minute in an elastic window to no limit serves every payer within 5 minutes',
    async () => {
      const payers = await raise({ perMinute: 20, windowMs: time.mintWindowMs }, null);
      expect(payers.share).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );

  function sliding(perMinute: number): RateLimit {
    return { perMinute, window: 'sliding', windowMs: time.mintWindowMs };
  }

  async function raise(
    from: RateLimit,
    to: RateLimit | null,
  ): Promise<{ before: number[]; after: number[]; share: number }> {
    await using site = await openSite({ rateLimit: from });
    const startedAt = time.now();
    const raisedAt = startedAt + LIMITED_MINUTES * MINUTE;
    const adaptedAt = raisedAt + ADAPTING_MINUTES * MINUTE;
    const minutes = LIMITED_MINUTES + ADAPTING_MINUTES + MEASURED_MINUTES;
    const payers = site.sendPayers({ perMinute: 90, minutes });
    await time.sleep(raisedAt - time.now());
    site.mint.switches.rateLimit = to;
    const all = await payers;
    return {
      before: invoiceTimes(all, startedAt, raisedAt),
      after: invoiceTimes(all, adaptedAt),
      share: shareServed(askedBetween(all, adaptedAt)),
    };
  }
});

describe('a mint that is down for 10 minutes', () => {
  const DOWN_MINUTES = 10;
  const BACK_WITHIN = 15;

  it.concurrent.each([
    {
      how: 'refuses connections',
      fail: (mint: TestMint) => mint.stopListening(),
      recover: (mint: TestMint) => mint.startListening(),
    },
    {
      how: 'fails every request',
      fail: async (mint: TestMint) => {
        mint.switches.chaos = { rates: { error: 1, brokenOpening: 1 } };
        mint.dropSockets();
      },
      recover: async (mint: TestMint) => {
        mint.switches.chaos = null;
      },
    },
  ])(
    'and $how is used again within 15 s of coming back',
    async ({ fail, recover }) => {
      await using site = await openSite();
      await using updates = await Updates.open(time, [site.wallet]);
      const invoice = await site.getInvoice();
      await fail(site.mint);
      const minutes = DOWN_MINUTES + 1;
      const payers = site.sendPayers({ perMinute: 60, minutes });
      await time.sleep(DOWN_MINUTES * MINUTE);
      const { id: quoteId } = site.mint.pay(invoice);
      await recover(site.mint);
      const backAt = time.now();
      const [delay] = await updates.delaysOf([{ quoteId, paidAt: backAt }]);
      expect(delay).toBeLessThanOrEqual(BACK_WITHIN);
      const all = await payers;
      const [firstInvoiceAt = Infinity] = invoiceTimes(all, backAt);
      expect(firstInvoiceAt - backAt).toBeLessThanOrEqual(BACK_WITHIN);
      expect(shareServed(askedBetween(all, backAt + BACK_WITHIN))).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );
});

/** A mint, a recipient who chose it, and what the mint answered. */
interface Site extends AsyncDisposable {
  mint: TestMint;
  wallet: ReturnType<World['newWallet']>;
  answers: readonly SentAnswer[];
  /** When requests of a route that were answered arrived, in unscaled seconds. */
  requestTimes(route: SentAnswer['route']): number[];
  getInvoice(): Promise<string>;
  sendPayers(demand: Pick<Demand, 'perMinute' | 'minutes'>): Promise<Payer[]>;
}

async function openSite(switches: Partial<TestMintSwitches> = {}): Promise<Site> {
  const answers: SentAnswer[] = [];
  const onAnswer = (answer: SentAnswer) => answers.push(answer);
  const mint = await TestMint.start({ switches, onAnswer });
  const wallet = world.newWallet();
  await chooseMint(wallet, mint.url);
  return {
    mint,
    wallet,
    answers,
    requestTimes: (route) =>
      answers
        .filter((answer) => answer.route === route)
        .map(({ receivedAtMs }) => time.toSeconds(receivedAtMs)),
    getInvoice: async () => {
      const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
      return (await request(world.service.url, path)).body.pr;
    },
    sendPayers: (demand) =>
      sendPayers({ time, service: world.service, recipients: [wallet], ...demand }),
    [Symbol.asyncDispose]: () => mint.close(),
  };
}
