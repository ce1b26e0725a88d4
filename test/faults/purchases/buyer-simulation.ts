import type { Proof } from '@cashu/cashu-ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { computeY } from '../../../src/usernames/ecash/proofs.ts';
import type { EcashPayer } from '../../helpers/ecash-payer.ts';
import { TestWallet } from '../../helpers/test-wallet.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted, tryRequest } from '../storm-client.ts';

export const PRICE_SAT = 8;

const USERNAME_PATH = '/api/v2/user/username';

/** Tokens exceed the price by up to this amount. */
const MAX_OVERPAYMENT_SAT = 16;

/** The delay between the requests of an attempt doubles up to the maximum. */
const FIRST_RETRY_MS = 300;
const MAX_RETRY_MS = 8_000;

/** Longer than most purchases take. */
const MAX_LEAVING_BUYER_WAIT_MS = 800;

/** Concurrent requests start within this time. */
const MAX_CONCURRENT_START_MS = 60;

/** Responses after which a wallet does not retry. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

export interface PaymentToken {
  text: string;
  proofs: Proof[];
  /** Y of each proof (NUT-07). */
  ys: readonly string[];
  amountSat: number;
}

/** Requests of one key for one name with one token, repeated until a final response. */
export interface PurchaseAttempt {
  scenarioRun: ScenarioRun;
  buyer: TestWallet;
  name: string;
  token: PaymentToken;
  /** Null while it retries, and if the buyer gave up. */
  finalResponse: { status: number; message: string } | null;
}

/** A group of related attempts. */
export interface ScenarioRun {
  number: number;
  scenario: ScenarioName;
  attempts: PurchaseAttempt[];
}

/** The behaviour of a group of buyers. */
interface Scenario {
  /** Share of all scenario runs. */
  share: number;
  /** How many names they get. Null: it varies. */
  expectedWinners: number | null;
  /** Buyer and token of each attempt, by index. */
  buyers: readonly number[];
  tokens: readonly number[];
  /** Suffix of the name in each attempt. Default: all attempts request the same name. */
  suffixes?: readonly string[];
}

const ONE = { buyers: [0], tokens: [0] };

export const SCENARIOS = {
  plain: { share: 0.25, expectedWinners: 1, ...ONE },
  /** One key sends each request several times, to random processes. */
  impatient: { share: 0.15, expectedWinners: 1, buyers: [0, 0, 0], tokens: [0, 0, 0] },
  contest: { share: 0.16, expectedWinners: 1, buyers: [0, 1, 2], tokens: [0, 1, 2] },
  twoTokens: { share: 0.09, expectedWinners: 1, buyers: [0, 0], tokens: [0, 1] },
  twoNames: {
    share: 0.09,
    expectedWinners: 1,
    buyers: [0, 0],
    tokens: [0, 0],
    suffixes: ['a', 'b'],
  },
  twoKeys: {
    share: 0.07,
    expectedWinners: 1,
    buyers: [0, 1],
    tokens: [0, 0],
    suffixes: ['a', 'b'],
  },
  sharedToken: { share: 0.06, expectedWinners: 1, buyers: [0, 1], tokens: [0, 0] },
  /** The token is worth less than the price. */
  short: { share: 0.04, expectedWinners: 0, ...ONE },
  /** The buyer disconnects early and does not retry. */
  leaving: { share: 0.09, expectedWinners: null, ...ONE },
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[];

/** Simulates buyers and records their responses. */
export class BuyerSimulation {
  readonly scenarioRuns: ScenarioRun[] = [];
  readonly tokens: PaymentToken[] = [];
  /** Number of requests, of requests without a response, and of requests with a 5xx response. */
  readonly counts = { requests: 0, lost: 0, rejected: 0 };
  readonly #storm: Storm;
  readonly #payer: EcashPayer;
  /** Aborts when buyers must stop retrying. */
  readonly #signal: AbortSignal;
  /** Attempts with a pending request, by origin. */
  readonly #pending = new Map<string, Set<PurchaseAttempt>>();

  constructor(storm: Storm, payer: EcashPayer, signal: AbortSignal) {
    this.#storm = storm;
    this.#payer = payer;
    this.#signal = signal;
  }

  get attempts(): PurchaseAttempt[] {
    return this.scenarioRuns.flatMap(({ attempts }) => attempts);
  }

  /** Returns the attempts whose request to a process has no response yet. */
  pendingAttemptsAt(origin: string): readonly PurchaseAttempt[] {
    return [...(this.#pending.get(origin) ?? [])];
  }

  /** Starts scenario runs at this rate until `stopSignal` aborts. Resolves when all runs have finished. */
  async run(scenariosPerSecond: number, stopSignal: AbortSignal): Promise<void> {
    const runs: Promise<void>[] = [];
    do {
      runs.push(this.#runScenario(runs.length + 1));
      // Rejections surface when all are awaited.
      runs.at(-1)?.catch(() => undefined);
    } while (await sleepUnlessAborted(1000 / scenariosPerSecond, stopSignal));
    await Promise.all(runs);
  }

  async #runScenario(number: number): Promise<void> {
    const random = this.#storm.random.fork(`scenario ${number}`);
    const name = chooseScenario(random, number);
    const scenario: Scenario = SCENARIOS[name];
    const scenarioRun: ScenarioRun = { number, scenario: name, attempts: [] };
    this.scenarioRuns.push(scenarioRun);
    const origin = this.#storm.deployment.processes[0]?.origin ?? '';
    const buyers = createForEach(scenario.buyers, () => new TestWallet(origin));
    const tokens = await Promise.all(
      createForEach(scenario.tokens, () => this.#newToken(random, name)),
    );
    scenarioRun.attempts = scenario.buyers.map((buyer, index) => ({
      scenarioRun,
      buyer: buyers[buyer] as TestWallet,
      token: tokens[scenario.tokens[index] ?? 0] as PaymentToken,
      name: `storm${number}${scenario.suffixes?.[index] ?? ''}`,
      finalResponse: null,
    }));
    await Promise.all(
      scenarioRun.attempts.map((attempt, index) =>
        this.#attemptPurchase(attempt, random.fork(`${index}`)),
      ),
    );
  }

  /** Sends the request until a final response. A leaving buyer sends it once and disconnects. */
  async #attemptPurchase(attempt: PurchaseAttempt, random: SeededRandom): Promise<void> {
    if (attempt.scenarioRun.scenario === 'leaving') {
      const disconnect = AbortSignal.timeout(
        Math.floor(random.between(0, MAX_LEAVING_BUYER_WAIT_MS)),
      );
      await this.#sendRequest(attempt, random, AbortSignal.any([disconnect, this.#signal]));
      return;
    }
    await sleepUnlessAborted(random.between(0, MAX_CONCURRENT_START_MS), this.#signal);
    for (let maxDelayMs = FIRST_RETRY_MS; !this.#signal.aborted; maxDelayMs *= 2) {
      await this.#sendRequest(attempt, random, this.#signal);
      if (attempt.finalResponse !== null) {
        return;
      }
      await sleepUnlessAborted(random.between(0, Math.min(maxDelayMs, MAX_RETRY_MS)), this.#signal);
    }
  }

  /** Sends one request, and records its response if it is final. */
  async #sendRequest(
    attempt: PurchaseAttempt,
    random: SeededRandom,
    signal: AbortSignal,
  ): Promise<void> {
    const origin = this.#storm.deployment.anyOrigin(random);
    const pending = this.#pending.get(origin) ?? new Set();
    this.#pending.set(origin, pending.add(attempt));
    this.counts.requests += 1;
    const response = await tryRequest(this.#storm.checkResults, origin, USERNAME_PATH, {
      method: 'POST',
      headers: {
        authorization: attempt.buyer.withOrigin(origin).signRequest(USERNAME_PATH, 'POST'),
        'content-type': 'application/json',
        'x-cashu': attempt.token.text,
      },
      body: JSON.stringify({ username: attempt.name }),
      signal,
    });
    pending.delete(attempt);
    if (response !== null && FINAL_STATUSES.includes(response.status)) {
      attempt.finalResponse = { status: response.status, message: response.body.message ?? '' };
    } else {
      this.counts[response === null ? 'lost' : 'rejected'] += 1;
    }
  }

  async #newToken(random: SeededRandom, scenario: ScenarioName): Promise<PaymentToken> {
    const amountSat =
      scenario === 'short'
        ? PRICE_SAT - 1
        : PRICE_SAT + Math.floor(random.next() * MAX_OVERPAYMENT_SAT);
    const proofs = await this.#payer.mintProofs(amountSat);
    // Every other token has no DLEQ proofs (NUT-12); the service must accept both kinds.
    const hasDleq = this.tokens.length % 2 === 0;
    const text = this.#payer.encodeToken(
      hasDleq ? proofs : proofs.map(({ dleq: _, ...proof }) => proof),
    );
    const token = { text, proofs, ys: proofs.map(computeY), amountSat };
    this.tokens.push(token);
    return token;
  }
}

/** Describes an attempt without its key and token, which are secret. */
export function describeAttempt({
  scenarioRun,
  name,
  finalResponse: response,
}: PurchaseAttempt): string {
  const outcome =
    response === null ? 'no final response' : `${response.status} ${response.message}`;
  return `scenario run ${scenarioRun.number} (${scenarioRun.scenario}), ${name}: ${outcome}`;
}

function createForEach<T>(numbers: readonly number[], make: () => T): T[] {
  return Array.from({ length: Math.max(...numbers) + 1 }, make);
}

/** Chooses each scenario once, so that none is missing, and then at random. */
function chooseScenario(random: SeededRandom, number: number): ScenarioName {
  let remainder = random.next();
  return (
    SCENARIO_NAMES[number - 1] ??
    SCENARIO_NAMES.find((name) => {
      remainder -= SCENARIOS[name].share;
      return remainder < 0;
    }) ??
    'plain'
  );
}
