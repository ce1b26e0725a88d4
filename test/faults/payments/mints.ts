import type { ChaosRates, ChaosSwitch } from '../../../demo/test-mint/chaos.ts';
import type { TestMintSwitches } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';

/** A third of all requests to a mint fail. */
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

/** Each 429 closes a route for about two seconds, so the busy route that creates invoices has few. */
const STORM: ChaosSwitch = {
  rates: RATES,
  ratesByRoute: {
    'POST /v1/mint/quote/bolt11': { rateLimit: 0.005, bareRateLimit: 0.005, silence: 0.005 },
  },
};

const CUT_INTERVAL_MS = 5_000;

/** Three kinds of mints. The first is the default mint. */
const KINDS: Record<string, Partial<TestMintSwitches>> = {
  nutshell: { issuePauseMs: 400, dropLaterFacts: true },
  cdk: { style: 'cdk', expirySeconds: 8 },
  'no-socket': {
    socket: false,
    batch: 'unadvertised',
    quoteIdStyle: 'base64url',
    issuePauseMs: 400,
  },
};

export type Mints = Awaited<ReturnType<typeof openMints>>;

/** Starts the mints of a run. They outlive every process of the service, and know what was paid. */
export async function openMints(seed: string) {
  const all: readonly TestMint[] = await Promise.all(
    Object.entries(KINDS).map(([kind, switches]) =>
      TestMint.start({ seed: `${seed}/${kind}`, switches }),
    ),
  );
  let cutter: NodeJS.Timeout | undefined;
  const setChaos = (chaos: ChaosSwitch | null) => {
    for (const mint of all) {
      mint.switches.chaos = chaos;
    }
  };
  const mints = {
    socketCuts: 0,

    /** The mint of a recipient; each mint has as many as the others. */
    of: (recipientIndex: number) => all[recipientIndex % all.length] as TestMint,

    startStorm(): void {
      setChaos(STORM);
      cutter = setInterval(() => {
        for (const mint of all) {
          mints.socketCuts += mint.openSocketCount;
          mint.dropSockets();
        }
      }, CUT_INTERVAL_MS);
    },

    endStorm(): void {
      clearInterval(cutter);
      setChaos(null);
    },

    /** How often a fault happened, at all mints together. */
    faultCount: (kind: keyof ChaosRates) =>
      all.reduce((sum, { chaosCounts }) => sum + chaosCounts[kind], 0),

    /** How often each fault happened. */
    faultCounts: () =>
      (Object.keys(RATES) as (keyof ChaosRates)[])
        .map((kind) => `${kind} ${mints.faultCount(kind)}`)
        .join(', '),

    /** A quote as its mint has it now. */
    quote: (quoteId: string) => all.map(({ quotes }) => quotes.get(quoteId)).find((quote) => quote),

    async close(): Promise<void> {
      clearInterval(cutter);
      await Promise.all(all.map((mint) => mint.close()));
    },
  };
  return mints;
}
