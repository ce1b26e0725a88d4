import './virtual-platform.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { RateLimit } from '../../demo/test-mint/rate-limiter.ts';
import type { World as SimulatedWorld } from './world.ts';

// Prints how many invoices payers get from a mint that limits requests, without any other fault. Each line of
// the output belongs to one scenario of `rate-limited-mint.test.ts`.

export interface LimitScenario {
  name: string;
  /** Null: no limit. */
  limit: RateLimit | null;
  payersPerMinute: number;
  addresses: number;
  processes: number;
  minutes: number;
  /** The measurement starts after this time. */
  settlingMinutes: number;
  /** What changes in the meantime. */
  change?: { afterMinutes: number; limit: RateLimit | null };
}

export interface LimitResult {
  name: string;
  invoicesPerMinute: number;
  servedShare: number;
  rejectionsPerMinute: number;
  longestGapSeconds: number;
}

const { World } = await import('./world.ts');
const { createTemplate } = await import('./template.ts');
const { WORLD } = await import('./scheduler.ts');
const { DEFAULT_TEST_MINT_SWITCHES } = await import('../../demo/test-mint/switches.ts');
const { DISABLED_LIMITS_ENV } = await import('../helpers/service/disabled-limits.ts');
const { loadEventVerifier } = await import('../../src/nostr/events.ts');

await loadEventVerifier();
const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-simulation-'));
const template = await createTemplate(folder);
for (const scenario of JSON.parse(process.argv[2] ?? '[]') as LimitScenario[]) {
  console.log(JSON.stringify(await measure(scenario)));
}
rmSync(folder, { recursive: true });

async function measure(scenario: LimitScenario): Promise<LimitResult> {
  const { name, payersPerMinute, addresses, processes, minutes, settlingMinutes } = scenario;
  const world = createQuietWorld(name, processes);
  const { scheduler, mints } = world;
  const [mint] = mints as [(typeof mints)[number]];
  Object.assign(mint.switches, { ...DEFAULT_TEST_MINT_SWITCHES, rateLimit: scenario.limit });
  const rejectionTimesMs: number[] = [];
  const handleRequest = mint.handleRequest.bind(mint);
  mint.handleRequest = async (...request) => {
    const response = await handleRequest(...request);
    if (response?.status === 429) {
      rejectionTimesMs.push(scheduler.nowMs);
    }
    return response;
  };
  for (const instance of world.instances) {
    world.startInstance(instance);
  }
  await scheduler.runUntil(1_000);
  const startMs = scheduler.nowMs;
  const at = (minute: number, act: () => unknown) =>
    scheduler.schedule(minute * 60_000, () => void act(), WORLD);
  const results: { requestedAtMs: number; invoiceAtMs: number | null }[] = [];
  for (let payer = 0; payer < payersPerMinute * minutes; payer += 1) {
    at(payer / payersPerMinute, async () => {
      const requestedAtMs = scheduler.nowMs;
      const invoice = await requestInvoice(world, `198.18.${payer % addresses}.1`);
      results.push({ requestedAtMs, invoiceAtMs: invoice === null ? null : scheduler.nowMs });
    });
  }
  const { change } = scenario;
  if (change !== undefined) {
    at(change.afterMinutes, () => Object.assign(mint.switches, { rateLimit: change.limit }));
  }
  await scheduler.runUntil(startMs + minutes * 60_000);
  world.close();
  const measuredMs = startMs + settlingMinutes * 60_000;
  const measuredMinutes = minutes - settlingMinutes;
  const measured = results.filter(({ requestedAtMs }) => requestedAtMs >= measuredMs);
  const times = results
    .flatMap(({ invoiceAtMs }) => invoiceAtMs ?? [])
    .filter((atMs) => atMs >= measuredMs);
  return {
    name,
    invoicesPerMinute: times.length / measuredMinutes,
    servedShare:
      measured.filter(({ invoiceAtMs }) => invoiceAtMs !== null).length / measured.length,
    rejectionsPerMinute:
      rejectionTimesMs.filter((atMs) => atMs >= measuredMs).length / measuredMinutes,
    longestGapSeconds: findLongestGap([measuredMs, ...times, scheduler.nowMs]) / 1_000,
  };
}

function createQuietWorld(seed: string, instances: number): SimulatedWorld {
  const without = Object.assign(new Set<string>(), { has: () => true });
  const world = new World({
    seed,
    template,
    folder,
    isRecording: false,
    without,
    scenario: { instances, mints: 1, recipients: 1, payments: 0 },
  });
  Object.assign(world.env, DISABLED_LIMITS_ENV);
  return world;
}

async function requestInvoice(
  { proxy, recipients }: SimulatedWorld,
  address: string,
): Promise<string | null> {
  const path = `/.well-known/lnurlp/${recipients[0]?.npub}?amount=21000`;
  const { body } = await proxy.request({ path }, address);
  return body.pr ?? null;
}

function findLongestGap(times: readonly number[]): number {
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at)));
}
