import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/database/database.ts';
import { parseMintInfo } from '../../src/mints/mint-info.ts';
import { saveMintInfo } from '../../src/mints/mint-store.ts';
import { insertQuotes } from '../../src/quotes/quote-store.ts';
import {
  HOSTILE_BEHAVIOURS,
  HOSTILE_MINT_INFO,
  startHostileMints,
} from '../helpers/mints/fake-hostile-mints.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { buildUnpaidQuote, randomPubkey } from '../helpers/recipients/quote-fixtures.ts';
import {
  RecipientClient,
  requestJson,
  type TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { MetricsScrape } from '../helpers/service/metrics-scrape.ts';
import { NutpostProcess } from '../helpers/service/nutpost-process.ts';

const MINT_COUNT = 1_000;
const QUOTES_PER_MINT = 10;

/** The hostile mints report most of their payments in the first seconds. Recording them is not part of the share. */
const WARM_UP_MS = 10_000;

/** The smallest of several measurements counts, because other processes of the machine disturb them. */
const MAX_MEASUREMENTS = 12;
const MEASUREMENT_MS = 5_000;

/** Of one core, beyond a service without quotes, which runs at the same time. */
const MAX_CPU_SHARE = 0.05;

const PAYMENT_COUNT = 100;
const MAX_UPDATE_DELAY_P99_MS = 100;

/** The subscriptions of all invoices are confirmed after this time. */
const SUBSCRIPTION_MS = 3_000;

it('spends less than 5 % of a core on 10,000 quotes at 1,000 hostile mints, and does not delay payments at the default mint', async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'nutpost-hostile-mints-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const mint = await startTestMint();
  const hostileUrls = await startHostileMints(
    Array.from({ length: MINT_COUNT }, (_, index) => HOSTILE_BEHAVIOURS[index % 3] ?? 'fails'),
  );
  await insertUnpaidQuotes(dataDir, hostileUrls);
  const idle = await startService(mint.url, path.join(dataDir, 'idle'));
  const { origin, metricsUrl } = await startService(mint.url, dataDir);
  await delay(WARM_UP_MS);
  let cpuShare = Number.POSITIVE_INFINITY;
  for (let i = 0; i < MAX_MEASUREMENTS && cpuShare >= MAX_CPU_SHARE; i += 1) {
    const readSeconds = async () =>
      (await readCpuSeconds(metricsUrl)) - (await readCpuSeconds(idle.metricsUrl));
    const startSeconds = await readSeconds();
    await delay(MEASUREMENT_MS);
    const usedSeconds = (await readSeconds()) - startSeconds;
    cpuShare = Math.min(cpuShare, usedSeconds / (MEASUREMENT_MS / 1_000));
  }
  const delaysMs = await measureUpdateDelays(origin, mint);
  expect(cpuShare).toBeLessThan(MAX_CPU_SHARE);
  expect(
    delaysMs.toSorted((one, other) => one - other)[Math.ceil(PAYMENT_COUNT * 0.99) - 1],
  ).toBeLessThan(MAX_UPDATE_DELAY_P99_MS);
});

async function startService(mintUrl: string, dataDir: string) {
  const service = new NutpostProcess('serve', {
    DATA_DIR: dataDir,
    DEFAULT_MINT_URL: mintUrl,
    METRICS_PORT: '0',
  });
  const origin = await service.waitForOrigin();
  return { origin, metricsUrl: /"metricsUrl":"([^"]+)"/.exec(service.stdout)?.[1] ?? '' };
}

async function insertUnpaidQuotes(dataDir: string, mintUrls: readonly string[]): Promise<void> {
  const database = await openDatabase({ kind: 'sqlite', dataDir }, () => undefined);
  const info = parseMintInfo(HOSTILE_MINT_INFO);
  if (info === null) {
    throw new Error('the info of the hostile mints is invalid');
  }
  const createdAtMs = Date.now();
  for (const mintUrl of mintUrls) {
    await saveMintInfo(database.db, mintUrl, info, createdAtMs);
    await insertQuotes(
      database.db,
      Array.from({ length: QUOTES_PER_MINT }, () =>
        buildUnpaidQuote(randomPubkey(), { mintUrl, createdAtMs }),
      ),
    );
  }
  await database.close();
}

/** Returns the CPU time that the service has used. */
async function readCpuSeconds(metricsUrl: string): Promise<number> {
  const metrics = new MetricsScrape(await (await fetch(metricsUrl)).text());
  return metrics.sumSeries('process_cpu_seconds_total') ?? Number.NaN;
}

/** Returns the time from each payment to its update. Each payment has its own recipient. */
async function measureUpdateDelays(
  origin: string,
  mint: { pay: (request: string) => unknown },
): Promise<number[]> {
  const payments: { request: string; socket: TestQuoteSocket }[] = [];
  for (let i = 0; i < PAYMENT_COUNT; i += 1) {
    const wallet = new RecipientClient(origin);
    const lnurl = `/.well-known/lnurlp/${wallet.npub}?amount=1000`;
    const { body } = await requestJson(origin, lnurl);
    payments.push({ request: body.pr, socket: await wallet.openSocket() });
  }
  await delay(SUBSCRIPTION_MS);
  const delaysMs: number[] = [];
  for (const { request, socket } of payments) {
    const paidAtMs = performance.now();
    mint.pay(request);
    await socket.nextMessage();
    delaysMs.push(performance.now() - paidAtMs);
  }
  await Promise.all(payments.map(({ socket }) => socket.close()));
  return delaysMs;
}
