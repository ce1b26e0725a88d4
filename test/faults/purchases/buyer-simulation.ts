import type { Proof } from '@cashu/cashu-ts';
import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { computeY, hashSecret } from '../../../src/usernames/ecash/proofs.ts';
import type { EcashPayer } from '../../helpers/recipients/ecash-payer.ts';
import { RecipientClient } from '../../helpers/recipients/recipient-client.ts';
import type { ProcessStorm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';

export const PRICE_SAT = 8;

const USERNAME_PATH = '/api/v2/user/username';

/** The service accepts a token that is worth one sat more than a price below 20 sat. */
const MAX_OVERPAYMENT_SAT = 1;

/** Retry delays are random. Their upper limit doubles with each retry, up to the maximum. */
const FIRST_MAX_RETRY_DELAY_MS = 300;
const MAX_RETRY_DELAY_MS = 8_000;

/** A buyer may disconnect before or after the purchase completes: most purchases take less than this time. */
const MAX_DISCONNECT_DELAY_MS = 800;

/** The attempts of a scenario run start within this time. */
const MAX_START_DELAY_MS = 60;

/** Responses after which a wallet does not retry. */
const FINAL_STATUSES: readonly number[] = [201, 400, 402, 409];

export interface PaymentToken {
  text: string;
  proofs: Proof[];
  ys: readonly string[];
  secretHashes: readonly string[];
  amountSat: number;
}

export interface PurchaseAttempt {
  scenarioRun: ScenarioRun;
  buyer: RecipientClient;
  name: string;
  token: PaymentToken;
  finalResponse: { status: number; message: string } | null;
}

export interface ScenarioRun {
  number: number;
  scenario: ScenarioName;
  attempts: PurchaseAttempt[];
}

interface Scenario {
  share: number;
  /** How many names a run sells. Null: the number varies. */
  expectedNames: number | null;
  buyers: readonly number[];
  tokens: readonly number[];
  /** Suffix of the requested name. Default: all attempts request the same name. */
  suffixes?: readonly string[];
}

const SINGLE = { buyers: [0], tokens: [0] };
const SAME_BUYER = { buyers: [0, 0] };
const SAME_TOKEN = { tokens: [0, 0] };
const TWO_NAMES = { suffixes: ['a', 'b'] };

export const SCENARIOS = {
  single: { share: 0.25, expectedNames: 1, ...SINGLE },
  /** One buyer sends the same request three times at once, to random processes. */
  repeatedRequest: { share: 0.15, expectedNames: 1, buyers: [0, 0, 0], tokens: [0, 0, 0] },
  /** Three buyers request the same name, each with their own token. */
  contestedName: { share: 0.16, expectedNames: 1, buyers: [0, 1, 2], tokens: [0, 1, 2] },
  /** One buyer requests a name with two tokens. */
  twoTokens: { share: 0.09, expectedNames: 1, ...SAME_BUYER, tokens: [0, 1] },
  /** One buyer requests two names with one token. */
  twoNames: { share: 0.09, expectedNames: 1, ...SAME_BUYER, ...SAME_TOKEN, ...TWO_NAMES },
  /** Two buyers request different names with the same token. */
  sharedTokenTwoNames: {
    share: 0.07,
    expectedNames: 1,
    buyers: [0, 1],
    ...SAME_TOKEN,
    ...TWO_NAMES,
  },
  /** Two buyers request the same name with the same token. */
  sharedTokenOneName: { share: 0.06, expectedNames: 1, buyers: [0, 1], ...SAME_TOKEN },
  /** The token is worth less than the price. */
  underpaid: { share: 0.04, expectedNames: 0, ...SINGLE },
  /** The buyer disconnects early and does not retry. */
  disconnect: { share: 0.09, expectedNames: null, ...SINGLE },
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[];

export class BuyerSimulation {
  readonly scenarioRuns: ScenarioRun[] = [];
  readonly tokens: PaymentToken[] = [];
  readonly counts = { requests: 0, withoutResponse: 0, retriable: 0 };
  readonly #storm: ProcessStorm;
  readonly #payer: EcashPayer;
  readonly #signal: AbortSignal;
  readonly #pendingAttempts = new Map<string, Set<PurchaseAttempt>>();

  constructor(storm: ProcessStorm, payer: EcashPayer, signal: AbortSignal) {
    this.#storm = storm;
    this.#payer = payer;
    this.#signal = signal;
  }

  get attempts(): PurchaseAttempt[] {
    return this.scenarioRuns.flatMap(({ attempts }) => attempts);
  }

  pendingAttemptsAt(origin: string): readonly PurchaseAttempt[] {
    return [...(this.#pendingAttempts.get(origin) ?? [])];
  }

  async run(scenariosPerSecond: number, stopSignal: AbortSignal): Promise<void> {
    const runs: Promise<void>[] = [];
    do {
      const run = this.#runScenario(runs.length + 1);
      // A failed run is reported by `Promise.all` below. Until then, it must not be an unhandled rejection.
      run.catch(() => undefined);
      runs.push(run);
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
    const buyers = createPerIndex(scenario.buyers, () => new RecipientClient(origin));
    const tokens = await Promise.all(
      createPerIndex(scenario.tokens, () => this.#mintToken(random, name)),
    );
    scenarioRun.attempts = scenario.buyers.map((buyerIndex, index) => ({
      scenarioRun,
      buyer: buyers[buyerIndex] as RecipientClient,
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

  async #attemptPurchase(attempt: PurchaseAttempt, random: SeededRandom): Promise<void> {
    if (attempt.scenarioRun.scenario === 'disconnect') {
      const disconnectDelayMs = Math.floor(random.between(0, MAX_DISCONNECT_DELAY_MS));
      const disconnect = AbortSignal.timeout(disconnectDelayMs);
      await this.#sendRequest(attempt, random, AbortSignal.any([disconnect, this.#signal]));
      return;
    }
    await sleepUnlessAborted(random.between(0, MAX_START_DELAY_MS), this.#signal);
    for (let maxDelayMs = FIRST_MAX_RETRY_DELAY_MS; !this.#signal.aborted; maxDelayMs *= 2) {
      await this.#sendRequest(attempt, random, this.#signal);
      if (attempt.finalResponse !== null) {
        return;
      }
      const delayMs = random.between(0, Math.min(maxDelayMs, MAX_RETRY_DELAY_MS));
      await sleepUnlessAborted(delayMs, this.#signal);
    }
  }

  async #sendRequest(
    attempt: PurchaseAttempt,
    random: SeededRandom,
    signal: AbortSignal,
  ): Promise<void> {
    const origin = this.#storm.pickOrigin(random);
    const pending = this.#pendingAttempts.get(origin) ?? new Set();
    this.#pendingAttempts.set(origin, pending.add(attempt));
    this.counts.requests += 1;
    const response = await this.#storm.request(origin, USERNAME_PATH, {
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
      this.counts[response === null ? 'withoutResponse' : 'retriable'] += 1;
    }
  }

  async #mintToken(random: SeededRandom, scenario: ScenarioName): Promise<PaymentToken> {
    const amountSat =
      scenario === 'underpaid'
        ? PRICE_SAT - 1
        : PRICE_SAT + Math.floor(random.next() * (MAX_OVERPAYMENT_SAT + 1));
    const proofs = await this.#payer.mintProofs(amountSat);
    // The service must accept tokens with and without DLEQ proofs (NUT-12).
    const hasDleq = this.tokens.length % 2 === 0;
    const text = this.#payer.encodeToken(
      hasDleq ? proofs : proofs.map(({ dleq: _, ...proof }) => proof),
    );
    const secretHashes = proofs.map(hashSecret);
    const token = { text, proofs, ys: proofs.map(computeY), secretHashes, amountSat };
    this.tokens.push(token);
    return token;
  }
}

export function describeAttempt({ scenarioRun, name, finalResponse }: PurchaseAttempt): string {
  const { status, message } = finalResponse ?? { status: 'no', message: 'final response' };
  return `scenario run ${scenarioRun.number} (${scenarioRun.scenario}), ${name}: ${status} ${message}`;
}

function createPerIndex<T>(indexes: readonly number[], create: () => T): T[] {
  return Array.from({ length: Math.max(...indexes) + 1 }, create);
}

/** Returns each scenario once in the first runs, so that every scenario occurs, and then a random scenario. */
function chooseScenario(random: SeededRandom, runNumber: number): ScenarioName {
  let remainder = random.next();
  return (
    SCENARIO_NAMES[runNumber - 1] ??
    SCENARIO_NAMES.find((name) => {
      remainder -= SCENARIOS[name].share;
      return remainder < 0;
    }) ??
    'single'
  );
}
