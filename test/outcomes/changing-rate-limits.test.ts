import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { SentResponse } from '../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { setMint, type TestEnvironment, useTestEnvironment } from '../helpers/test-environment.ts';
import { requestJson } from '../helpers/test-wallet.ts';
import {
  calculateServedShare,
  filterRequestedBetween,
  listInvoiceTimes,
  type PayerLoad,
  type PayerResult,
  simulatePayers,
  TRUST_PROXY_ENV,
} from './payer-simulation.ts';
import { TEN_TIMES_FASTER } from './time-scale.ts';
import { UpdateRecorder } from './update-recorder.ts';

/** Mints that send Retry-After, raise their limits or are down, at ten times the real speed. */

const time = TEN_TIMES_FASTER;
const MINUTE = 60;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

const TEST_TIMEOUT_MS = 180_000;

const world = useTestEnvironment({ env: TRUST_PROXY_ENV, overrides: time.serviceOverrides });

describe('a mint that sends Retry-After', () => {
  /** Sent in real seconds. */
  const RETRY_AFTER_SECONDS = 4;
  const COOLDOWN = time.toSeconds(RETRY_AFTER_SECONDS * 1_000);

  it.concurrent.each([
    { route: CREATE, other: CHECK },
    { route: CHECK, other: CREATE },
  ] as const)(
    'gets no requests on $route for exactly that long, while $other continues',
    async ({ route, other }) => {
      await using site = await openSite({ hasWebSocket: false });
      const payers = site.sendPayers({ perMinute: 60, minutes: 2 });
      await time.sleepSeconds(20);
      site.mint.rateLimitNext(route, { retryAfterSeconds: RETRY_AFTER_SECONDS });
      await payers;
      const rejections = site.responses.filter(({ status }) => status === 429);
      expect(rejections).toMatchObject([{ route }]);
      const from = time.toSeconds(rejections[0]?.sentAtMs ?? 0);
      // Requests in flight at the time of the rejection arrive after it.
      const later = site.requestTimes(route).filter((at) => at > from + 5 * time.latencySeconds);
      const next = Math.min(...later);
      expect(next - from).toBeGreaterThanOrEqual(COOLDOWN);
      expect(next - from).toBeLessThanOrEqual(COOLDOWN + 10);
      const meanwhile = site.requestTimes(other).filter((at) => at > from && at < from + COOLDOWN);
      // The polling schedule is not scaled: one or two polls are due in these four real seconds.
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
    'from 20 to 60 per minute is used at the new limit within 5 minutes',
    async () => {
      const payers = await measureRaise(sliding(20), sliding(60));
      // 75 % of the limit, as at 20 per minute.
      expect(payers.after.length / MEASURED_MINUTES).toBeGreaterThanOrEqual(45);
      expect(payers.before.length / LIMITED_MINUTES).toBeLessThanOrEqual(25);
    },
    TEST_TIMEOUT_MS,
  );

  it.concurrent(
    'from 20 per minute in an elastic window to no limit serves every payer within 5 minutes',
    async () => {
      const payers = await measureRaise(
        { requestsPerWindow: 20, windowMs: time.mintWindowMs },
        null,
      );
      expect(payers.share).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );

  function sliding(perMinute: number): RateLimit {
    return { requestsPerWindow: perMinute, window: 'sliding', windowMs: time.mintWindowMs };
  }

  async function measureRaise(
    from: RateLimit,
    to: RateLimit | null,
  ): Promise<{ before: number[]; after: number[]; share: number }> {
    await using site = await openSite({ rateLimit: from });
    const startedAt = time.nowSeconds();
    const raisedAt = startedAt + LIMITED_MINUTES * MINUTE;
    const adaptedAt = raisedAt + ADAPTING_MINUTES * MINUTE;
    const minutes = LIMITED_MINUTES + ADAPTING_MINUTES + MEASURED_MINUTES;
    const payers = site.sendPayers({ perMinute: 90, minutes });
    await time.sleepSeconds(raisedAt - time.nowSeconds());
    site.mint.switches.rateLimit = to;
    const all = await payers;
    return {
      before: listInvoiceTimes(all, startedAt, raisedAt),
      after: listInvoiceTimes(all, adaptedAt),
      share: calculateServedShare(filterRequestedBetween(all, adaptedAt)),
    };
  }
});

describe('a mint that is down for 10 minutes', () => {
  const DOWN_MINUTES = 10;
  const RECOVERY_SECONDS = 15;

  it.concurrent.each([
    {
      failure: 'refuses connections',
      fail: (mint: TestMint) => mint.stopListening(),
      recover: (mint: TestMint) => mint.startListening(),
    },
    {
      failure: 'fails every request',
      fail: async (mint: TestMint) => {
        mint.switches.chaos = { rates: { error: 1, brokenOpening: 1 } };
        mint.dropSockets();
      },
      recover: async (mint: TestMint) => {
        mint.switches.chaos = null;
      },
    },
  ])(
    'and $failure is used again within 15 s of its recovery',
    async ({ fail, recover }) => {
      await using site = await openSite();
      await using updates = await UpdateRecorder.open(time, [site.wallet]);
      const invoice = await site.getInvoice();
      await fail(site.mint);
      const minutes = DOWN_MINUTES + 1;
      const payers = site.sendPayers({ perMinute: 60, minutes });
      await time.sleepSeconds(DOWN_MINUTES * MINUTE);
      const { id: quoteId } = site.mint.pay(invoice);
      await recover(site.mint);
      const recoveredAt = time.nowSeconds();
      const [delay] = await updates.waitForDelays([{ quoteId, paidAt: recoveredAt }]);
      expect(delay).toBeLessThanOrEqual(RECOVERY_SECONDS);
      const all = await payers;
      const [firstInvoiceAt = Infinity] = listInvoiceTimes(all, recoveredAt);
      expect(firstInvoiceAt - recoveredAt).toBeLessThanOrEqual(RECOVERY_SECONDS);
      expect(
        calculateServedShare(filterRequestedBetween(all, recoveredAt + RECOVERY_SECONDS)),
      ).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );
});

/** A mint, a recipient who uses it, and the responses that the mint sent. */
interface Site extends AsyncDisposable {
  mint: TestMint;
  wallet: ReturnType<TestEnvironment['newWallet']>;
  responses: readonly SentResponse[];
  /** Returns when the mint received the requests of a route, in unscaled seconds. */
  requestTimes(route: SentResponse['route']): number[];
  getInvoice(): Promise<string>;
  sendPayers(load: Pick<PayerLoad, 'perMinute' | 'minutes'>): Promise<PayerResult[]>;
}

async function openSite(switches: Partial<TestMintSwitches> = {}): Promise<Site> {
  const responses: SentResponse[] = [];
  const onResponse = (response: SentResponse) => responses.push(response);
  const mint = await TestMint.start({ switches, onResponse });
  const wallet = world.newWallet();
  await setMint(wallet, mint.url);
  return {
    mint,
    wallet,
    responses,
    requestTimes: (route) =>
      responses
        .filter((response) => response.route === route)
        .map(({ receivedAtMs }) => time.toSeconds(receivedAtMs)),
    getInvoice: async () => {
      const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
      return (await requestJson(world.service.url, path)).body.pr;
    },
    sendPayers: (load) =>
      simulatePayers({ time, service: world.service, recipients: [wallet], ...load }),
    [Symbol.asyncDispose]: () => mint.close(),
  };
}
