import { describe, expect, it } from 'vitest';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { SentResponse } from '../../demo/test-mint/state.ts';
import type { TestMintSwitches } from '../../demo/test-mint/switches.ts';
import { TestMint } from '../../demo/test-mint.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  setMint,
  type TestEnvironment,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
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

const time = TEN_TIMES_FASTER;
const MINUTE_SECONDS = 60;

const CREATE = 'POST /v1/mint/quote/bolt11';
const CHECK = 'POST /v1/mint/quote/bolt11/check';

const TEST_TIMEOUT_MS = 180_000;

const environment = useTestEnvironment({ env: TRUST_PROXY_ENV, overrides: time.serviceOverrides });

describe.concurrent('a mint that sends Retry-After', () => {
  /** In real seconds, because the service reads the header as real time. */
  const RETRY_AFTER_SECONDS = 4;
  const COOLDOWN_SECONDS = time.toSeconds(RETRY_AFTER_SECONDS * 1_000);

  it.concurrent.each([
    { route: CREATE, otherRoute: CHECK },
    { route: CHECK, otherRoute: CREATE },
  ] as const)(
    'receives no request $route until Retry-After elapses, but continues to receive $otherRoute',
    async ({ route, otherRoute }) => {
      await using scenario = await startScenario({ hasWebSocket: false });
      const simulation = scenario.simulatePayers({ payersPerMinute: 60, minutes: 2 });
      await time.sleepSeconds(20);
      scenario.mint.rateLimitNext(route, { retryAfterSeconds: RETRY_AFTER_SECONDS });
      await simulation;
      const rejections = scenario.responses.filter(({ status }) => status === 429);
      expect(rejections).toMatchObject([{ route }]);
      const rejectedAt = time.toSeconds(rejections[0]?.sentAtMs ?? 0);
      // Ignores requests that were in flight during the rejection and arrive shortly after it.
      const nextRequestAt = Math.min(
        ...scenario
          .listRequestTimes(route)
          .filter((at) => at > rejectedAt + 5 * time.latencySeconds),
      );
      const pauseSeconds = nextRequestAt - rejectedAt;
      expect(pauseSeconds).toBeGreaterThanOrEqual(COOLDOWN_SECONDS);
      expect(pauseSeconds).toBeLessThanOrEqual(COOLDOWN_SECONDS + 10);
      // The polling schedule is not accelerated: one or two polls are due in these four real seconds.
      const otherRequestTimes = scenario.listRequestTimes(otherRoute);
      expect(
        otherRequestTimes.filter((at) => at > rejectedAt && at < rejectedAt + COOLDOWN_SECONDS),
      ).not.toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );
});

describe.concurrent('a mint that changes its rate limit', () => {
  const LIMITED_MINUTES = 4;
  const ADAPTING_MINUTES = 5;
  const MEASURED_MINUTES = 2;

  it.concurrent(
    'creates 45 invoices per minute 5 minutes after it raises its limit from 20 to 60',
    async () => {
      const measured = await measureLimitChange(createSlidingLimit(20), createSlidingLimit(60));
      expect(measured.invoicesAfterAdaptation / MEASURED_MINUTES).toBeGreaterThanOrEqual(45);
      expect(measured.invoicesBeforeChange / LIMITED_MINUTES).toBeLessThanOrEqual(25);
    },
    TEST_TIMEOUT_MS,
  );

  it.concurrent(
    'serves every payer 5 minutes after it removes an elastic limit of 20 per minute',
    async () => {
      const elasticLimit: RateLimit = { requestsPerWindow: 20, windowMs: time.mintWindowMs };
      const measured = await measureLimitChange(elasticLimit, null);
      expect(measured.servedShareAfterAdaptation).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );

  function createSlidingLimit(requestsPerWindow: number): RateLimit {
    return { requestsPerWindow, windowKind: 'sliding', windowMs: time.mintWindowMs };
  }

  async function measureLimitChange(oldLimit: RateLimit, newLimit: RateLimit | null) {
    await using scenario = await startScenario({ rateLimit: oldLimit });
    const startedAt = time.nowSeconds();
    const changedAt = startedAt + LIMITED_MINUTES * MINUTE_SECONDS;
    const adaptedAt = changedAt + ADAPTING_MINUTES * MINUTE_SECONDS;
    const minutes = LIMITED_MINUTES + ADAPTING_MINUTES + MEASURED_MINUTES;
    const simulation = scenario.simulatePayers({ payersPerMinute: 90, minutes });
    await time.sleepSeconds(changedAt - time.nowSeconds());
    scenario.mint.switches.rateLimit = newLimit;
    const payers = await simulation;
    return {
      invoicesBeforeChange: listInvoiceTimes(payers, startedAt, changedAt).length,
      invoicesAfterAdaptation: listInvoiceTimes(payers, adaptedAt).length,
      servedShareAfterAdaptation: calculateServedShare(filterRequestedBetween(payers, adaptedAt)),
    };
  }
});

describe.concurrent('a mint that is down for 10 minutes', () => {
  const DOWN_MINUTES = 10;
  const RECOVERY_SECONDS = 15;

  it.concurrent.each([
    {
      failure: 'refused connections',
      fail: (mint: TestMint) => mint.stopListening(),
      recover: (mint: TestMint) => mint.startListening(),
    },
    {
      failure: 'failed every request',
      fail: async (mint: TestMint) => {
        mint.switches.chaos = { rates: { error: 1, rejectedUpgrade: 1 } };
        mint.dropSockets();
      },
      recover: async (mint: TestMint) => {
        mint.switches.chaos = null;
      },
    },
  ])(
    'creates invoices and reports payments within 15 s of its recovery if it $failure',
    async ({ fail, recover }) => {
      await using scenario = await startScenario();
      await using updates = await UpdateRecorder.open(time, [scenario.wallet]);
      const invoice = await scenario.requestInvoice();
      await fail(scenario.mint);
      const minutes = DOWN_MINUTES + 1;
      const simulation = scenario.simulatePayers({ payersPerMinute: 60, minutes });
      await time.sleepSeconds(DOWN_MINUTES * MINUTE_SECONDS);
      const { id: quoteId } = scenario.mint.pay(invoice);
      await recover(scenario.mint);
      const recoveredAt = time.nowSeconds();
      const [delaySeconds] = await updates.waitForDelays([{ quoteId, paidAtSeconds: recoveredAt }]);
      expect(delaySeconds).toBeLessThanOrEqual(RECOVERY_SECONDS);
      const payers = await simulation;
      const [firstInvoiceAt = Infinity] = listInvoiceTimes(payers, recoveredAt);
      expect(firstInvoiceAt - recoveredAt).toBeLessThanOrEqual(RECOVERY_SECONDS);
      expect(
        calculateServedShare(filterRequestedBetween(payers, recoveredAt + RECOVERY_SECONDS)),
      ).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );
});

interface MintScenario extends AsyncDisposable {
  mint: TestMint;
  wallet: ReturnType<TestEnvironment['newWallet']>;
  responses: readonly SentResponse[];
  /** Returns when the mint received the requests of a route, in simulated seconds. */
  listRequestTimes(route: SentResponse['route']): number[];
  requestInvoice(): Promise<string>;
  simulatePayers(load: Pick<PayerLoad, 'payersPerMinute' | 'minutes'>): Promise<PayerResult[]>;
}

async function startScenario(switches: Partial<TestMintSwitches> = {}): Promise<MintScenario> {
  const responses: SentResponse[] = [];
  const onResponse = (response: SentResponse) => responses.push(response);
  const mint = await TestMint.start({ switches, onResponse });
  const wallet = environment.newWallet();
  await setMint(wallet, mint.url);
  return {
    mint,
    wallet,
    responses,
    listRequestTimes: (route) =>
      responses
        .filter((response) => response.route === route)
        .map(({ receivedAtMs }) => time.toSeconds(receivedAtMs)),
    requestInvoice: async () => {
      const path = `/.well-known/lnurlp/${wallet.npub}?amount=21000`;
      return (await requestJson(environment.service.url, path)).body.pr;
    },
    simulatePayers: (load) =>
      simulatePayers({ time, service: environment.service, recipients: [wallet], ...load }),
    [Symbol.asyncDispose]: () => mint.close(),
  };
}
