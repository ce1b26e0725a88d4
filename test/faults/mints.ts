import type { ChaosRates, ChaosSwitch } from '../../src/demo/test-mint/chaos.ts';
import type { TestMintQuote } from '../../src/demo/test-mint/quotes.ts';
import type { TestMintSwitches } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';

/** A third of all requests to a mint fail, and others go wrong in smaller ways. */
const RATES: ChaosRates = {
  error: 0.12,
  garbage: 0.06,
  cutBefore: 0.06,
  cutAfter: 0.06,
  silence: 0.03,
  rateLimit: 0.05,
  bareRateLimit: 0.01,
  late: 0.1,
  shuffledBatch: 0.5,
  brokenOpening: 0.3,
  lostMessage: 0.2,
  lateMessage: 0.2,
  repeatedMessage: 0.1,
  staleFirstState: 0.3,
};

/**
 * The route that creates invoices is asked many times a second, and each 429 closes it for about two
 * seconds. At the rates of the other routes, it would be closed most of the time.
 */
const STORM: ChaosSwitch = {
  rates: RATES,
  ratesByRoute: {
    'POST /v1/mint/quote/bolt11': { rateLimit: 0.005, bareRateLimit: 0.005, silence: 0.005 },
  },
};

const CUT_INTERVAL_MS = 5_000;

/** Three kinds of mints. The first is the default mint. */
const MANNERS: readonly { name: string; switches: Partial<TestMintSwitches> }[] = [
  { name: 'nutshell', switches: { issuePauseMs: 400, dropLaterFacts: true } },
  { name: 'cdk', switches: { style: 'cdk', expirySeconds: 8 } },
  {
    name: 'no-socket',
    switches: {
      socket: false,
      batch: 'unadvertised',
      quoteIdStyle: 'base64url',
      issuePauseMs: 400,
    },
  },
];

/** A mint, with a name for messages. */
export interface NamedMint {
  name: string;
  mint: TestMint;
}

/** The mints of a run. They outlive every process of the service, and know what was paid. */
export class Mints {
  readonly all: readonly NamedMint[];
  #cutter: NodeJS.Timeout | undefined;
  #socketCuts = 0;

  static async open(seed: string): Promise<Mints> {
    return new Mints(
      await Promise.all(
        MANNERS.map(async ({ name, switches }) => ({
          name,
          mint: await TestMint.start({ seed: `${seed}/${name}`, switches }),
        })),
      ),
    );
  }

  private constructor(all: readonly NamedMint[]) {
    this.all = all;
  }

  /** The mint of users who chose none. */
  get default(): NamedMint {
    return this.of(0);
  }

  /** The mint of a recipient; each has as many as the others. */
  of(recipientIndex: number): NamedMint {
    return this.all[recipientIndex % this.all.length] as NamedMint;
  }

  /** From now on everything goes wrong now and then. */
  startStorm(): void {
    for (const { mint } of this.all) {
      mint.switches.chaos = STORM;
    }
    this.#cutter = setInterval(() => this.#cutSockets(), CUT_INTERVAL_MS);
  }

  /** From now on nothing goes wrong. */
  endStorm(): void {
    clearInterval(this.#cutter);
    for (const { mint } of this.all) {
      mint.switches.chaos = null;
    }
  }

  /** How many sockets were cut. */
  get socketCuts(): number {
    return this.#socketCuts;
  }

  /** How often each thing went wrong, at all mints together. */
  get faultCounts(): Record<keyof ChaosRates, number> {
    const counts = { ...this.default.mint.chaosCounts };
    for (const { mint } of this.all.slice(1)) {
      for (const kind of Object.keys(counts) as (keyof ChaosRates)[]) {
        counts[kind] += mint.chaosCounts[kind];
      }
    }
    return counts;
  }

  /** How many requests the mints got. */
  get requestCount(): number {
    return this.all
      .flatMap(({ mint }) => Object.values(mint.requestCounts))
      .reduce((sum, count) => sum + count, 0);
  }

  /** A quote as its mint has it now; undefined where no mint has it. */
  quote(quoteId: string): TestMintQuote | undefined {
    return this.all.map(({ mint }) => mint.quotes.get(quoteId)).find((quote) => quote);
  }

  async close(): Promise<void> {
    clearInterval(this.#cutter);
    await Promise.all(this.all.map(({ mint }) => mint.close()));
  }

  #cutSockets(): void {
    for (const { mint } of this.all) {
      this.#socketCuts += mint.openSocketCount;
      mint.dropSockets();
    }
  }
}
