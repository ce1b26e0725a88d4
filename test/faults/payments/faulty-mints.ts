import type { ChaosConfig, ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { TestMintSwitches } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';

/** About 40 % of the requests to a mint fail. */
const CHAOS_RATES: ChaosRates = {
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

/** After a 429, the service pauses a route for about two seconds, so the busiest route has few of them. */
const STORM_CHAOS: ChaosConfig = {
  rates: CHAOS_RATES,
  ratesByRoute: {
    'POST /v1/mint/quote/bolt11': { rateLimit: 0.005, bareRateLimit: 0.005, silence: 0.005 },
  },
};

const SOCKET_CUT_INTERVAL_MS = 5_000;

/** The first mint is the default mint. */
const MINT_KINDS: Record<string, Partial<TestMintSwitches>> = {
  nutshell: { issueDelayMs: 400, omitsExpiryAndPubkeyAfterCreation: true },
  cdk: { style: 'cdk', expirySeconds: 8 },
  'no-socket': {
    hasWebSocket: false,
    batch: 'unadvertised',
    quoteIdStyle: 'base64url',
    issueDelayMs: 400,
  },
};

export type FaultyMints = Awaited<ReturnType<typeof startFaultyMints>>;

/** Starts the mints. They run in the test process and record which quotes were paid. */
export async function startFaultyMints(seed: string) {
  const all: readonly TestMint[] = await Promise.all(
    Object.entries(MINT_KINDS).map(([kind, switches]) =>
      TestMint.start({ seed: `${seed}/${kind}`, switches }),
    ),
  );
  let socketCutTimer: NodeJS.Timeout | undefined;
  const setChaos = (chaos: ChaosConfig | null) => {
    for (const mint of all) {
      mint.switches.chaos = chaos;
    }
  };
  const mints = {
    socketCuts: 0,

    /** Returns the mint of a recipient. Recipients are spread evenly over the mints. */
    of: (recipientIndex: number) => all[recipientIndex % all.length] as TestMint,

    startStorm(): void {
      setChaos(STORM_CHAOS);
      socketCutTimer = setInterval(() => {
        for (const mint of all) {
          mints.socketCuts += mint.openSocketCount;
          mint.dropSockets();
        }
      }, SOCKET_CUT_INTERVAL_MS);
    },

    endStorm(): void {
      clearInterval(socketCutTimer);
      setChaos(null);
    },

    /** Returns how often a fault was injected, at all mints together. */
    faultCount: (kind: keyof ChaosRates) =>
      all.reduce((sum, { chaosCounts }) => sum + chaosCounts[kind], 0),

    describeFaultCounts: () =>
      (Object.keys(CHAOS_RATES) as (keyof ChaosRates)[])
        .map((kind) => `${kind} ${mints.faultCount(kind)}`)
        .join(', '),

    quote: (quoteId: string) => all.map(({ quotes }) => quotes.get(quoteId)).find((quote) => quote),

    async close(): Promise<void> {
      clearInterval(socketCutTimer);
      await Promise.all(all.map((mint) => mint.close()));
    },
  };
  return mints;
}
