import type { ChaosConfig, ChaosRates } from '../../../demo/test-mint/chaos.ts';
import type { TestMintSwitches } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';

/** About 40 % of the requests to a mint fail, and another 10 % get a late response. */
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
  rejectedUpgrade: 0.3,
  lostMessage: 0.2,
  lateMessage: 0.2,
  repeatedMessage: 0.1,
  staleFirstState: 0.3,
};

/**
 * After a 429, the service pauses a route for about two seconds. Invoice creation is the busiest route, so its faults
 * that cause long waits are rare.
 */
const STORM_CHAOS: ChaosConfig = {
  rates: CHAOS_RATES,
  ratesByRoute: {
    'POST /v1/mint/quote/bolt11': { rateLimit: 0.005, bareRateLimit: 0.005, silence: 0.005 },
  },
};

const SOCKET_CUT_INTERVAL_MS = 5_000;

/** One mint per kind. The first mint is the default mint of the service. */
const MINT_KINDS: Record<string, Partial<TestMintSwitches>> = {
  nutshell: { issueDelayMs: 400, omitsExpiryAndPubkeyAfterCreation: true },
  cdk: { style: 'cdk', expirySeconds: 8 },
  'no-socket': {
    hasWebSocket: false,
    batchCheck: 'unadvertised',
    quoteIdStyle: 'base64url',
    issueDelayMs: 400,
  },
};

export type FaultyMints = Awaited<ReturnType<typeof startFaultyMints>>;

export async function startFaultyMints(seed: string) {
  const allMints: readonly TestMint[] = await Promise.all(
    Object.entries(MINT_KINDS).map(([kind, switches]) =>
      TestMint.start({ seed: `${seed}/${kind}`, switches }),
    ),
  );
  let socketCutTimer: NodeJS.Timeout | undefined;
  const setChaos = (chaos: ChaosConfig | null) => {
    for (const mint of allMints) {
      mint.switches.chaos = chaos;
    }
  };
  const mints = {
    socketCutCount: 0,

    /** Returns the mint of a recipient. Recipients are spread evenly over the mints. */
    mintOf: (recipientIndex: number) => allMints[recipientIndex % allMints.length] as TestMint,

    startFaults(): void {
      setChaos(STORM_CHAOS);
      socketCutTimer = setInterval(() => {
        for (const mint of allMints) {
          mints.socketCutCount += mint.openSocketCount;
          mint.dropSockets();
        }
      }, SOCKET_CUT_INTERVAL_MS);
    },

    stopFaults(): void {
      clearInterval(socketCutTimer);
      setChaos(null);
    },

    faultCount: (kind: keyof ChaosRates) =>
      allMints.reduce((sum, { chaosCounts }) => sum + chaosCounts[kind], 0),

    describeFaultCounts: () =>
      (Object.keys(CHAOS_RATES) as (keyof ChaosRates)[])
        .map((kind) => `${kind} ${mints.faultCount(kind)}`)
        .join(', '),

    quote: (quoteId: string) =>
      allMints.map(({ quotes }) => quotes.get(quoteId)).find((quote) => quote),

    async close(): Promise<void> {
      clearInterval(socketCutTimer);
      await Promise.all(allMints.map((mint) => mint.close()));
    },
  };
  return mints;
}
