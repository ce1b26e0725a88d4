import { setTimeout as delay } from 'node:timers/promises';
import { compare } from './harness/compare.ts';
import type { BenchDatabase, DatabaseHost } from './harness/database.ts';
import {
  type ComparedRow,
  type Effort,
  type Figure,
  type Reach,
  runsOfTheUnsteady,
} from './harness/figure.ts';
import { countAskedQuotes, type InvoiceQuestion, invoiceQuestions } from './harness/invoices.ts';
import { NodeProcess } from './harness/node-process.ts';
import { fellBehind } from './harness/pace.ts';
import { newRecipient } from './harness/recipients.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, startFloor, startMint, startService } from './harness/servers.ts';
import { median, percentile } from './harness/statistics.ts';
import { TestMints } from './harness/test-mints.ts';
import { compareThroughput } from './harness/throughput.ts';
import { type Wrongs, withUnkept } from './harness/wrongs.ts';
import type { AskerPlan, AskerResult } from './processes/asker.ts';

const CONNECTIONS = 64;

/** To the floor, at least. */
const RATIO = 0.6;

/** Recipients asked for in turn. */
const RECIPIENTS = 1_024;

/** An honest mint asks its Lightning node first. */
const MINT_TAKES_MS = 50;

/** Of the sixteen connections that the service has to a mint, it needs three on average then. */
const ASKED_PER_SECOND = 60;

/** In its first idle second a service collects what its start has left, and payers come long after. */
const SETTLING_MS = 3_000;

/**
 * Unmeasured: a service is warm for days. Code that is asked for this seldom gets compiled after a thousand
 * invoices, and until then it takes four times as long. As fast as the connections easily bear.
 */
const WARM_UP = { perSecond: 2 * ASKED_PER_SECOND, seconds: 12 };

/** Of answers this far apart, it takes longer than a rate does before there is a 99th percentile. */
const LONGER = 5;

/** One run of one side, in milliseconds. */
type Run = {
  p50: number;
  p99: number;
  worst: number;
  /** Of the process that asks; it has one thread. */
  askerBusy: number;
  /** How much longer it took to ask than planned, as a share of the time. */
  lateness: number;
  /** Right answers, of the warm-up too. */
  right: number;
} & Wrongs;

/** Each side in turn; `bare` is a server that asks the mint and inserts, so that it has the disk's part too. */
type Runs = { ours: Run; floor: Run; bare: Run }[];

/**
 * An invoice, in two ways: how many, from a mint that answers at once, beside one POST to that mint and
 * one insert; and how soon, from a mint that takes its time, beside that mint's own answer.
 */
export const invoice: Figure = {
  async measure(databases, effort) {
    return [await compareRates(databases, effort), ...(await compareLatencies(databases, effort))];
  },
};

async function compareRates(databases: DatabaseHost, effort: Effort): Promise<ComparedRow> {
  await using mint = await startMint();
  const questions = newQuestions();
  const plan = {
    connections: CONNECTIONS,
    requests: questions.map(({ path, expect }) => ({ path, headers: {}, expect })),
    staysAwake: false,
  };
  return await compareThroughput(
    `invoice, ${CONNECTIONS} connections`,
    {
      ours: async (stack) => {
        const database = stack.use(await emptyDatabase(databases));
        const server = stack.use(await startService(mint, database));
        return { server, plan, mint, countKept: () => countAskedQuotes(database, questions) };
      },
      floor: async (stack) => {
        const database = stack.use(await emptyDatabase(databases));
        const server = stack.use(await startBareServer(mint, database, questions));
        return { server, plan, mint, countKept: () => countAskedQuotes(database, questions) };
      },
      // The watcher asks the mint about what nobody has paid.
      areIdle: false,
    },
    effort,
    { ratioAtLeast: RATIO },
  );
}

async function compareLatencies(databases: DatabaseHost, effort: Effort): Promise<ComparedRow[]> {
  await using testMints = await TestMints.start({ mints: 1, delayMs: MINT_TAKES_MS });
  const mint = { url: testMints.mints[0]?.url ?? '' };
  const questions = newQuestions();
  const runs: Runs = [];
  for (let run = 0; run < runsOfTheUnsteady(effort); run += 1) {
    const ours = await askService();
    const floor = await measureAsker(
      questions.map(({ amountSat, expect }) => ({
        url: `${mint.url}/v1/mint/quote/bolt11`,
        body: { amount: amountSat, unit: 'sat' },
        expect,
      })),
      effort,
    );
    runs.push({ ours, floor, bare: await askBareServer() });
  }
  return [toRow('p50', runs, { overFloorAtMost: 3 }), toRow('p99', runs, { ratioAtMost: 1.3 })];

  async function askService(): Promise<Run> {
    await using database = await emptyDatabase(databases);
    await using service = await startService(mint, database);
    await delay(SETTLING_MS);
    const requests = questions.map(({ path, expect }) => {
      const { href, origin, pathname } = new URL(path, service.url);
      // As a wallet does: nobody learns otherwise where an invoice is to be had (LUD-06).
      const before = { url: origin + pathname, expect: `${pathname}"` };
      return { url: href, expect, before };
    });
    return await checkKept(await measureAsker(requests, effort), service, database, questions);
  }

  async function askBareServer(): Promise<Run> {
    await using database = await emptyDatabase(databases);
    await using server = await startBareServer(mint, database, questions);
    const requests = questions.map(({ path, expect }) => ({ url: server.url + path, expect }));
    return await checkKept(await measureAsker(requests, effort), server, database, questions);
  }
}

/** Ends the server, and looks whether what it answered is in its database. */
async function checkKept(
  run: Run,
  server: BenchServer,
  database: BenchDatabase,
  questions: readonly InvoiceQuestion[],
): Promise<Run> {
  await server[Symbol.asyncDispose]();
  return { ...run, ...withUnkept(run, run.right, await countAskedQuotes(database, questions)) };
}

async function measureAsker(requests: AskerPlan['requests'], effort: Effort): Promise<Run> {
  const seconds = LONGER * effort.seconds;
  const measured = { perSecond: ASKED_PER_SECOND, seconds };
  const input: AskerPlan = { requests, warmUp: WARM_UP, measured };
  const program = import.meta.resolve('./processes/asker.ts');
  await using asker = new NodeProcess('who asks', program, { input });
  await asker.next<'warm'>(WARM_UP.seconds * 1000);
  const cpuMs = await asker.cpuMs();
  const { latenciesMs, askedForSeconds, ...answers } = await asker.next<AskerResult>(
    seconds * 1000,
  );
  const cpuTookMs = (await asker.cpuMs()) - cpuMs;
  if (latenciesMs.length === 0) {
    throw new Error(`there was no invoice, but: ${answers.firstWrong}`);
  }
  return {
    p50: percentile(latenciesMs, 0.5),
    p99: percentile(latenciesMs, 0.99),
    worst: Math.max(...latenciesMs),
    askerBusy: cpuTookMs / (seconds * 1000),
    lateness: askedForSeconds / seconds - 1,
    ...answers,
  };
}

function toRow(share: 'p50' | 'p99', runs: Readonly<Runs>, toReach: Reach): ComparedRow {
  const all = runs.flatMap(({ ours, floor, bare }) => [ours, floor, bare]);
  const bareMs = median(runs.map(({ bare }) => bare[share])).toFixed(1);
  const busy = percent(median(all.map(({ askerBusy }) => askerBusy)));
  return compare(
    {
      title: `invoice, mint that takes ${MINT_TAKES_MS} ms, ${ASKED_PER_SECOND} a second, ${share}`,
      unit: 'ms',
      toReach,
      notes: [
        `one POST to it and one committed insert, by a bare server: ${bareMs} ms`,
        `${runs.length} runs of each; who asks is busy for ${busy} of a core`,
      ],
      problems: runs.flatMap(({ ours, floor, bare }) => [
        ...problemsOf('ours', ours),
        ...problemsOf('floor', floor),
        ...problemsOf('a bare server', bare),
      ]),
    },
    runs.map(({ ours, floor, bare }) => ({
      ours: { ...ours, bareMs: bare[share], value: ours[share] },
      floor: { ...floor, value: floor[share] },
    })),
  );
}

function problemsOf(who: string, { wrong, firstWrong, askerBusy, lateness }: Run): string[] {
  return [
    ...(wrong > 0 ? [`${who}: ${wrong} wrong answers, the first: ${firstWrong}`] : []),
    ...(fellBehind({ busy: askerBusy, lateness })
      ? [`${who}: who asks was too busy or too late, and may be what was measured`]
      : []),
  ];
}

function startBareServer(
  mint: Pick<BenchServer, 'url'>,
  database: BenchDatabase,
  questions: readonly InvoiceQuestion[],
): Promise<BenchServer> {
  const program = import.meta.resolve('./processes/floor-invoice.ts');
  const pubkeys = Object.fromEntries(questions.map(({ npub, pubkey }) => [npub, pubkey]));
  return startFloor(program, { MINT_URL: mint.url, ...database.env }, pubkeys);
}

function newQuestions(): InvoiceQuestion[] {
  return invoiceQuestions(Array.from({ length: RECIPIENTS }, newRecipient));
}

/** For each run its own: quotes left open by another one would be watched. */
async function emptyDatabase(databases: DatabaseHost): Promise<BenchDatabase> {
  const database = await databases.create();
  await database.prepare();
  return database;
}
