import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TestMint } from '../../src/demo/test-mint.ts';
import { NO_LIMITS } from '../helpers/no-limits.ts';
import { request } from '../helpers/wallet.ts';
import type { Surroundings } from './storm/request-cases.ts';
import { stormSettings } from './storm/settings.ts';
import { describeHoldings, Stage } from './storm/stage.ts';
import { Storm, type StormResult } from './storm/storm.ts';
import { loadSigner, Stranger } from './storm/stranger.ts';

/**
 * Requests and socket messages that no client would send, from many strangers at once: whatever they
 * are, each gets an answer as spec.md has it, and the service goes on as if nothing had been.
 */

const { seed, requestCount } = stormSettings();

/** The storm takes about a minute, and what is left of it is looked at for another. */
vi.setConfig({ testTimeout: 300_000, hookTimeout: 60_000 });

const STRANGERS = 8;

/** So many of the requests come first: code is compiled and caches are filled by then. */
const WARM_UP_SHARE = 0.1;

/** Enough to pass every limit of one address. */
const LIMITED_SHARE = 0.04;

const SMALL_LIMITS = { LIMIT_REQUESTS: '1200', LIMIT_INVOICES: '60', LIMIT_CHANGES: '30' };

const NAME_PRICE_SAT = '21';

let stage: Stage;

describe('strangers who send what no client would', () => {
  beforeEach(() => openStage(NO_LIMITS));
  afterEach(() => stage[Symbol.asyncDispose]());

  it('are answered as the specification says, and leave nothing behind', async () => {
    const around = await surroundings({ isLimited: false });
    const warmUp = await storm(around, Math.ceil(requestCount * WARM_UP_SHARE), 'warm-up');
    const before = await stage.holdings();
    const rest = await storm(around, requestCount - warmUp.requests - warmUp.messages, 'storm');

    expect(problemsIn(warmUp, rest)).toEqual([]);
    await expectItGoesOn();
    const { after, problems } = await stage.letGo(before);
    console.log(`before: ${describeHoldings(before)}; after: ${describeHoldings(after)}`);
    expect(problems).toEqual([]);
  });
});

describe('strangers who do so from one address, beyond its limits', () => {
  beforeEach(() => openStage(SMALL_LIMITS));
  afterEach(() => stage[Symbol.asyncDispose]());

  it('are told so in the way of each path, and disturb nobody else', async () => {
    const around = await surroundings({ isLimited: true });
    const result = await storm(
      around,
      Math.ceil(requestCount * LIMITED_SHARE),
      'limited',
      () => '127.0.0.2',
    );

    expect(problemsIn(result)).toEqual([]);
    expect(result.statuses.get(429)).toBeGreaterThan(0);
    await expectItGoesOn();
  });
});

async function openStage(env: Record<string, string>): Promise<void> {
  await loadSigner();
  stage = await Stage.open({ USERNAME_PRICE_SAT: NAME_PRICE_SAT, ...env });
}

async function surroundings({ isLimited }: { isLimited: boolean }): Promise<Surroundings> {
  const newStranger = (name: string) => new Stranger(stage.origin, `${seed}/${name}`);
  const strangers = Array.from({ length: STRANGERS }, (_unused, index) => newStranger(`${index}`));
  await Promise.all(strangers.map((each) => each.signIn()));
  const unlucky = newStranger('unlucky');
  await loseMint(unlucky);
  return { strangers, unlucky, mintUrl: stage.mint.url, isLimited };
}

/** Chooses a mint, which then goes away for good. */
async function loseMint(stranger: Stranger): Promise<void> {
  const mint = await TestMint.start();
  const path = '/api/v2/user/mint';
  const { status } = await request(stage.origin, path, {
    method: 'PATCH',
    headers: { authorization: stranger.authorization(path, 'PATCH') },
    body: JSON.stringify({ mint_url: mint.url }),
  });
  expect(status).toBe(200);
  await mint.close();
}

async function storm(
  around: Surroundings,
  count: number,
  name: string,
  addressOf?: (lane: number) => string,
): Promise<StormResult> {
  const start = performance.now();
  const result = await new Storm({
    seed: `${seed}/${name}`,
    port: stage.port,
    count,
    around,
    ...(addressOf && { addressOf }),
  }).run();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(
    `${name}, seed ${seed}: ${result.requests} requests and ${result.messages} socket messages` +
      ` in ${seconds} s; answered ${counts(result.statuses)}; closed with ${counts(result.closeCodes)}`,
  );
  return result;
}

async function expectItGoesOn(): Promise<void> {
  expect(await stage.complaints()).toEqual([]);
  await stage.wholePayment();
}

/** Each with how to see it again. */
function problemsIn(...results: StormResult[]): string[] {
  return results.flatMap(({ problems }) =>
    [...problems].map(
      ([problem, examples]) => `${problem} (STORM_SEED=${seed}): ${examples.join('\n    ')}`,
    ),
  );
}

function counts(of: ReadonlyMap<number | 'none', number>): string {
  const sorted = [...of].sort(([a], [b]) => String(a).localeCompare(String(b)));
  return sorted.map(([what, count]) => `${what}: ${count}`).join(', ');
}
