import type { ChaosRates } from '../../demo/test-mint/chaos.ts';
import { executeRoute, findRoute } from '../../demo/test-mint/http-server.ts';
import { markIssued } from '../../demo/test-mint/issuing.ts';
import { notFound } from '../../demo/test-mint/mint-rejection.ts';
import type { TestMintQuote } from '../../demo/test-mint/quotes.ts';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { createState, type TestMintState } from '../../demo/test-mint/state.ts';
import {
  DEFAULT_TEST_MINT_SWITCHES,
  type TestMintSwitches,
} from '../../demo/test-mint/switches.ts';
import { TestMintWebSocketServer } from '../../demo/test-mint/websocket-server.ts';
import type { FaultKind, FaultPlan } from './faults.ts';
import type { History } from './history.ts';
import { Actor, WORLD } from './scheduler.ts';
import type { HostResponse, HostSocket, SimulatedHost } from './simulated-network.ts';
import { platform, wallClockMs } from './virtual-platform.ts';

/** The mint's own faults, and how often the test mint has them. */
const MINT_FAULTS: Partial<Record<FaultKind, ChaosRates>> = {
  'mint errors': { error: 0.05 },
  'mint sends garbage': { garbage: 0.03 },
  'mint is silent': { silence: 0.01, silenceAfter: 0.01 },
  'mint is late': { late: 0.1, lateMessage: 0.1 },
  'stray 429': { bareRateLimit: 0.01, rateLimit: 0.01 },
  'mint shuffles batches': { shuffledBatch: 0.5 },
  'mint loses messages': { lostMessage: 0.1 },
  'mint repeats messages': { repeatedMessage: 0.1 },
  'mint sends stale states': { staleFirstState: 0.3 },
  'mint rejects sockets': { rejectedUpgrade: 0.3 },
};

/** A swap that the mint has executed for the service. */
export interface ExecutedSwap {
  secrets: string[];
  /** The value of the outputs: without the mint's fee. */
  amountSat: number;
}

/** One of the mints. The same code as the test mint, without its network. Knows which quotes are paid and issued. */
export class SimulatedMint implements SimulatedHost {
  readonly host: string;
  readonly url: string;
  readonly switches: TestMintSwitches;
  readonly state: TestMintState;
  actor: Actor;
  /** When it began to be gone for hours; null: not yet. */
  goneForHoursSinceMs: number | null = null;
  readonly swaps: ExecutedSwap[] = [];
  /** Whether it deletes invoices that are never paid, and rejects batches with their ids. */
  readonly forgetsUnpaid: boolean;
  forgottenCount = 0;
  /** When it deleted each quote that it has no longer. */
  readonly deletedAtMs = new Map<string, number>();
  /** Whether it leaves some ids out of its answers to batches. */
  readonly omitsFromBatches: boolean;
  readonly #history: History;
  readonly #faults: FaultPlan;
  readonly #random: SeededRandom;
  #sockets: TestMintWebSocketServer;
  #hasExpiringKeyset = false;

  constructor(host: string, random: SeededRandom, faults: FaultPlan, history: History) {
    this.#random = random;
    this.host = host;
    this.url = `https://${host}`;
    this.actor = new Actor(host.replace('.example', ''));
    this.#history = history;
    this.#faults = faults;
    this.switches = { ...DEFAULT_TEST_MINT_SWITCHES, ...chooseSwitches(random) };
    if (faults.has('mint limits requests')) {
      this.switches.rateLimit = chooseRateLimit(random);
    }
    this.forgetsUnpaid = random.chance(0.2);
    this.omitsFromBatches = random.chance(0.25);
    const kinds = Object.entries(MINT_FAULTS).filter(([kind]) => faults.has(kind as FaultKind));
    if (kinds.length > 0) {
      this.switches.chaos = { rates: Object.assign({}, ...kinds.map(([, rates]) => rates)) };
    }
    const seed = String(random.next());
    const inputFeePpk = random.pick([0, 0, 0, 100, 1000]);
    this.state = createState(this.switches, { now: wallClockMs, seed, inputFeePpk });
    this.#sockets = new TestMintWebSocketServer(this.state, null);
  }

  async handleRequest(method: string, path: string, body: string): Promise<HostResponse | null> {
    const { switches, state } = this;
    const { route, id } = findRoute({ method, url: path });
    if (route === undefined) {
      return notFound().toHttpResponse(switches.style);
    }
    const fault = this.state.chaos.chooseFault(
      ['error', 'garbage', 'silence', 'silenceAfter', 'rateLimit', 'bareRateLimit', 'late'],
      route,
    );
    if (fault === 'silence') {
      return null;
    }
    const { actor } = this;
    if (path === '/v1/swap' && this.#faults.choose('mint is slow to swap', 0.3, this.host)) {
      this.#holdSwap();
    }
    const response = await executeRoute(state, route, decodeURIComponent(id), body, fault);
    if (response.status === 429 && switches.rateLimit !== null) {
      this.#faults.record('mint limits requests', this.host);
    }
    if (path === '/v1/swap' && response.status === 200) {
      this.#recordSwap(body);
    }
    if (this.omitsFromBatches && path.endsWith('/check') && response.status === 200) {
      const quotes: { quote: string }[] = JSON.parse(response.body);
      response.body = JSON.stringify(quotes.filter(({ quote }) => !/[0-3]$/i.test(quote)));
    }
    if (!actor.isAlive) {
      return null;
    }
    if (fault === 'late') {
      await new Promise((resolve) => setTimeout(resolve, state.chaos.randomDelayMs()));
    }
    if (fault === 'silenceAfter') {
      return null;
    }
    if (fault === 'garbage') {
      response.body = response.body.slice(0, response.body.length / 2);
    }
    const isRead = path.startsWith('/v1/mint/quote/bolt11/');
    if (isRead && this.#faults.choose('mint reports impossible states', 0.02, this.host)) {
      // As if it had forgotten the payment, or only that it has issued the ecash.
      response.body = this.#random.chance(0.5)
        ? response.body
            .replaceAll(/"state":"(?:PAID|ISSUED)"/g, '"state":"UNPAID"')
            .replaceAll(/"amount_(paid|issued)":\d+/g, '"amount_$1":0')
        : response.body
            .replaceAll('"state":"ISSUED"', '"state":"PAID"')
            .replaceAll(/"amount_issued":\d+/g, '"amount_issued":0');
    }
    return response;
  }

  acceptSocket(socket: HostSocket): number | null {
    const status = this.#sockets.checkHandshake();
    if (status === null) {
      this.#sockets.accept(socket);
    }
    return status;
  }

  /** Pays an invoice over Lightning. Returns false if it was paid before, or the mint is gone. */
  pay(request: string): TestMintQuote | null {
    const { quotes } = this.state;
    const quote = quotes.findByRequest(request);
    if (quote?.state !== 'UNPAID' || !this.actor.isAlive) {
      return null;
    }
    this.#history.add(this.actor, () => `receives ${quote.amountSat} sat for ${quote.id}`);
    quotes.setState(quote.id, 'PAID');
    return quotes.get(quote.id);
  }

  /** Call it for an invoice that is never paid. */
  forget(quoteId: string): void {
    if (this.forgetsUnpaid && this.actor.isAlive) {
      this.#history.add(this.actor, () => `forgets ${quoteId}`);
      this.#delete(quoteId);
      this.forgottenCount += 1;
    }
  }

  /** Deletes the quotes that expired before a time, and have not changed since. */
  deleteExpired(beforeUnixSeconds: number): void {
    for (const { id, expiresAt, updatedAt, state } of this.state.quotes.byId.values()) {
      if (Math.max(expiresAt, updatedAt) < beforeUnixSeconds && state !== 'PENDING') {
        this.#delete(id);
      }
    }
  }

  #delete(quoteId: string): void {
    this.state.quotes.delete(quoteId);
    this.deletedAtMs.set(quoteId, platform.scheduler.nowMs);
  }

  /** A wallet mints the ecash of a paid quote. Returns whether it got it. */
  async issue(quoteId: string): Promise<boolean> {
    if (this.state.quotes.byId.get(quoteId)?.state !== 'PAID' || !this.actor.isAlive) {
      return false;
    }
    if (
      this.switches.refusesAfterExpiry &&
      wallClockMs() / 1_000 > this.state.quotes.get(quoteId).expiresAt
    ) {
      this.#history.add(this.actor, () => `refuses to issue ${quoteId}, which has expired`);
      return false;
    }
    this.#history.add(this.actor, () => `issues ecash for ${quoteId}`);
    await markIssued(this.state, quoteId);
    return true;
  }

  /** Loses its connections, and what it was about to answer. Its quotes are stored. */
  stop(): void {
    this.#history.add(this.actor, () => 'is gone');
    this.actor.die();
  }

  start(): void {
    if (this.actor.isAlive) {
      return;
    }
    this.actor = new Actor(this.actor.name);
    this.#sockets = new TestMintWebSocketServer(this.state, null);
    this.#history.add(this.actor, () => 'is back');
  }

  /** Issues with new keys from now on. They may have another fee, and expire soon. */
  rotateKeyset(): void {
    this.#faults.record('mint rotates keysets', this.host);
    const random = this.#random;
    const expiresInSeconds = random.pick([null, random.exponential(300), 40 * 86_400]);
    this.#hasExpiringKeyset = expiresInSeconds !== null;
    const id = this.state.ledger.keysets.rotate({
      inputFeePpk: random.pick([0, 0, 100, 1000]),
      ...(expiresInSeconds !== null && {
        finalExpirySeconds: Math.floor(wallClockMs() / 1_000 + expiresInSeconds),
      }),
    });
    this.#history.add(
      this.actor,
      () => `issues with keyset ${id}, ${expiresInSeconds ?? 'no'} expiry`,
    );
  }

  endFaults(): void {
    this.switches.chaos = null;
    if (this.#hasExpiringKeyset) {
      this.state.ledger.keysets.rotate({});
    }
  }

  /** While it lasts, the mint reports the inputs as pending. */
  #holdSwap(): void {
    const hold = this.state.holds.add('POST /v1/swap', 'during');
    const { scheduler } = platform;
    // If the mint dies meanwhile, it has executed the swap when it is back.
    scheduler.schedule(this.#random.exponential(8_000), () => hold.release(), WORLD);
  }

  #recordSwap(body: string): void {
    const { inputs, outputs } = JSON.parse(body);
    const amounts = outputs.map(({ amount }: { amount: number }) => amount);
    this.swaps.push({
      secrets: inputs.map(({ secret }: { secret: string }) => secret),
      amountSat: amounts.reduce((sum: number, amount: number) => sum + amount, 0),
    });
  }
}

function chooseSwitches(random: SeededRandom): Partial<TestMintSwitches> {
  const hasWebSocket = random.chance(0.75);
  const stateStyle = random.pick([
    'current',
    'current',
    'current',
    'paid',
    'text',
    'amounts',
  ] as const);
  return {
    style: random.pick(['nutshell', 'cdk']),
    batchCheck: random.pick(['advertised', 'advertised', 'unadvertised', 'absent']),
    maxBatchSize: random.pick([1000, 100]),
    hasWebSocket,
    isWebSocketSilent: random.chance(0.2),
    subscriptionGapMs: random.pick([0, 0, 0, 300]),
    quoteIdStyle: random.pick(['uuidv7', 'base64url']),
    expirySeconds: random.pick([3600, 3600, 600]),
    omitsExpiryAndPubkeyAfterCreation: random.chance(0.5),
    stateStyle,
    // Mints of the time of `paid` could not lock quotes.
    supportsLocking: stateStyle !== 'paid',
    issueDelayMs: random.pick([0, 0, 400, 5_000]),
  };
}

function chooseRateLimit(random: SeededRandom): RateLimit {
  const windowKind = random.pick(['elastic', 'sliding'] as const);
  // An elastic window with a short `Retry-After` would never end.
  const retryAfterSeconds = random.pick([5, null, null]);
  return {
    requestsPerWindow: 20,
    windowKind,
    ...(windowKind === 'sliding' && retryAfterSeconds !== null && { retryAfterSeconds }),
  };
}
