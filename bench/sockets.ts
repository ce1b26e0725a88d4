import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { platform } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { generateSecretKey } from 'nostr-tools';
import pg from 'pg';
import { encodeUpdates, QUOTE_CHANNEL } from '../src/notifications/quote-channel.ts';
import type { BoundedRow, Figure } from './harness/figure.ts';
import { monotonicMs } from './harness/monotonic.ts';
import { NodeProcess } from './harness/node-process.ts';
import { processUsage } from './harness/process-usage.ts';
import { percent } from './harness/report.ts';
import { type BenchServer, PUBLIC_ORIGIN, startMint, startService } from './harness/servers.ts';
import { median, percentile, spreadOf, sum } from './harness/statistics.ts';
import type { SocketPlan, SocketsOpened, UpdateHeard } from './processes/socket-holder.ts';

const SOCKETS = 20_000;

/** So many of them have one key together. */
const SHARED = 1_000;

/** What they have to keep to; a kilobyte is 1,024 bytes. */
const MAX_SOCKET_KB = 12;
const MAX_SINGLE_MS = 5;
const MAX_SHARED_MS = 50;

/** Processes that hold the sockets, each with an address of its own: 127.0.0.2 and the following. */
const HOLDERS = 4;

/** Where a process may have no more than 20,000 files open, some are the service's own. */
const OTHER_FILES = 100;

/** Fewer are not what the figure is about. */
const LEAST_SOCKETS = 19_000;

/** Signatures, their checks and handshakes, on a machine that is busy besides. */
const OPENING_MS = 120_000;

/** What goes on for a moment after a start, or after the last socket came, is over then. */
const IDLE_MS = 5_000;

/** A holder that is busier than this, of a core, while it is told something, may be what was measured. */
const HOLDER_BUSY = 0.9;

/** One after the other; what comes first compiles the hot code. The slowest hundredth has to be more than one. */
const UPDATES = { single: 300, shared: 150 } as const;
const WARM_UPS = 10;

/** One run. */
interface Measured {
  /** What the process holds (RSS), before the first socket came and with all of them idle. */
  rssBeforeMb: number;
  rssMb: number;
  /** Of a socket, in use once all garbage is collected. */
  heapKb: number;
  /** CPU time of the service for one socket, from its handshake until it is authenticated. */
  openingCpuMs: number;
  single: UpdateTimes;
  shared: UpdateTimes;
}

interface UpdateTimes {
  /** From the moment before the notice is sent until the last socket's wallet has read it. */
  tookMs: number[];
  /** CPU time of the service for one update, to however many sockets. */
  cpuMs: number;
  /** Of a core: the busiest of those who hold the sockets. */
  holderBusy: number;
}

/**
 * Twenty thousand authenticated quote sockets in one process: the memory that each takes, and the time that
 * an update takes to one of them, and to a thousand of one key.
 *
 * Every key signs for itself (NIP-98), so that a socket costs what a stranger's does; the thousand share a
 * key. Memory is what the system counts for the process (RSS), from a service that is idle and has its
 * garbage collected to one that is idle with all sockets and has not: whatever was allocated meanwhile is
 * the sockets'. What the system itself keeps for a connection is not the process's. An update begins as the
 * notice in the database that a commit sends: what comes before it is in the figure payment-to-update.
 *
 * Making and checking all the signatures takes most of the time of a run.
 */
export const sockets: Figure = {
  async measure(databases, effort) {
    await using database = await databases.create();
    const databaseUrl = database.env['DATABASE_URL'];
    if (databaseUrl === undefined || platform() !== 'linux') {
      console.error('Sockets are measured on Linux and with PostgreSQL alone: left out.');
      return [];
    }
    await database.prepare();
    await using mint = await startMint();
    const count = Math.min(SOCKETS, (await mostOpenFiles()) - OTHER_FILES);
    const runs: Measured[] = [];
    for (let run = 0; run < effort.runs; run += 1) {
      await using service = await startService(mint, database);
      runs.push(await measureSockets(count, service, databaseUrl));
    }
    return toRows(count, runs);
  },
};

async function measureSockets(
  count: number,
  service: BenchServer,
  databaseUrl: string,
): Promise<Measured> {
  await delay(IDLE_MS);
  const heapBeforeMb = await service.process.heapMb();
  const rssBeforeMb = await rssMbOf(service);
  const cpuBeforeMs = await service.process.cpuMs();

  await using stack = new AsyncDisposableStack();
  const holders = plansFor(count, service.url).map((input) => stack.use(startHolder(input)));
  const opened = await Promise.all(holders.map((holder) => holder.next<SocketsOpened>(OPENING_MS)));
  const openingCpuMs = ((await service.process.cpuMs()) - cpuBeforeMs) / count;
  await delay(IDLE_MS);
  const rssMb = await rssMbOf(service);

  const notices = new pg.Client({ connectionString: databaseUrl });
  await notices.connect();
  stack.defer(() => notices.end());
  const single = await timeUpdates(service, holders, UPDATES.single, async (update) => {
    const holder = update % HOLDERS;
    const { pubkeys = [] } = opened[holder] ?? {};
    return tell(notices, pubkeys[update % pubkeys.length] ?? '', holders.slice(holder, holder + 1));
  });
  const shared = await timeUpdates(service, holders, UPDATES.shared, async () =>
    tell(notices, opened[0]?.sharedPubkey ?? '', holders),
  );
  const heapKb = (((await service.process.heapMb()) - heapBeforeMb) * 1024) / count;
  return { rssBeforeMb, rssMb, heapKb, openingCpuMs, single, shared };
}

function plansFor(count: number, serviceUrl: string): SocketPlan[] {
  const sharedKey = Buffer.from(generateSecretKey()).toString('hex');
  return Array.from({ length: HOLDERS }, (_, holder) => ({
    serviceUrl,
    challengeUrl: `${PUBLIC_ORIGIN}/api/v2/ws/quote`,
    localAddress: `127.0.0.${holder + 2}`,
    single: Math.ceil((count - SHARED - holder) / HOLDERS),
    shared: SHARED / HOLDERS,
    sharedKey,
  }));
}

function startHolder(input: SocketPlan): NodeProcess {
  const program = import.meta.resolve('./processes/socket-holder.ts');
  return new NodeProcess('the holder of sockets', program, { input });
}

async function timeUpdates(
  service: BenchServer,
  holders: readonly NodeProcess[],
  updates: number,
  update: (number: number) => Promise<number>,
): Promise<UpdateTimes> {
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) {
    await update(warmUp);
  }
  const processes = [service.process, ...holders];
  const cpuMs = () => Promise.all(processes.map((each) => each.cpuMs()));
  const before = await cpuMs();
  const tookMs: number[] = [];
  for (let number = 0; number < updates; number += 1) {
    tookMs.push(await update(number));
  }
  const after = await cpuMs();
  const [serviceMs = 0, ...holdersMs] = after.map((now, i) => now - (before[i] ?? 0));
  return { tookMs, cpuMs: serviceMs / updates, holderBusy: Math.max(...holdersMs) / sum(tookMs) };
}

/**
 * Tells every process that a quote of a key has changed, as the use case that recorded it does.
 *
 * @param holders all that have sockets of the key
 * @returns how long it took until all of these had heard it
 */
async function tell(
  notices: pg.Client,
  pubkey: string,
  holders: readonly NodeProcess[],
): Promise<number> {
  const quoteId = randomUUID();
  const [payload] = encodeUpdates([{ id: 0, pubkey, quoteId }]);
  const toldAtMs = monotonicMs();
  await notices.query('select pg_notify($1, $2)', [QUOTE_CHANNEL, payload]);
  const heard = await Promise.all(holders.map((holder) => holder.next<UpdateHeard>()));
  if (heard.some((each) => each.quoteId !== quoteId)) {
    throw new Error('a socket heard of another quote');
  }
  return Math.max(...heard.map(({ atMs }) => atMs)) - toldAtMs;
}

async function rssMbOf(service: BenchServer): Promise<number> {
  return (await processUsage(service.process.pid))?.rssMb ?? 0;
}

/** That a process of ours may have; each begins with the highest number there is. */
async function mostOpenFiles(): Promise<number> {
  const limits = await readFile('/proc/self/limits', 'utf8');
  const [, hard] = /^Max open files\s+\S+\s+(\d+)/m.exec(limits) ?? [];
  return hard === undefined ? Number.POSITIVE_INFINITY : Number(hard);
}

function toRows(count: number, runs: readonly Measured[]): BoundedRow[] {
  const all = count.toLocaleString('en');
  const memoryKb = spreadOf(
    runs.map(({ rssBeforeMb, rssMb }) => ((rssMb - rssBeforeMb) * 1024) / count),
  );
  const ofAll = (field: 'heapKb' | 'rssBeforeMb' | 'rssMb' | 'openingCpuMs') =>
    median(runs.map((run) => run[field]));
  return [
    {
      title: `memory of a quote socket, ${all} of them`,
      ours: memoryKb.median,
      spread: memoryKb,
      unit: 'KB',
      atMost: MAX_SOCKET_KB,
      notes: [
        `${ofAll('heapKb').toFixed(1)} KB of it heap in use; the process: ` +
          `${ofAll('rssBeforeMb').toFixed(0)} MB before the first, ${ofAll('rssMb').toFixed(0)} MB with all`,
        `CPU time of the service: ${ofAll('openingCpuMs').toFixed(2)} ms to open one and check its key`,
      ],
      problems: count < LEAST_SOCKETS ? [`a process may not hold more than ${all} of them`] : [],
      run: { runs },
    },
    ...toUpdateRows(`update to one of ${all} sockets`, MAX_SINGLE_MS, runs, 'single'),
    ...toUpdateRows(
      `update to ${SHARED.toLocaleString('en')} of one key, of ${all}`,
      MAX_SHARED_MS,
      runs,
      'shared',
    ),
  ];
}

function toUpdateRows(
  title: string,
  atMost: number,
  runs: readonly Measured[],
  kind: 'single' | 'shared',
): BoundedRow[] {
  const times = runs.map((run) => run[kind]);
  const worst = Math.max(...times.flatMap(({ tookMs }) => tookMs));
  const cpuMs = median(times.map((each) => each.cpuMs));
  const holderBusy = Math.max(...times.map((each) => each.holderBusy));
  const toRow = (share: 'p50' | 'p99', notes: string[]): BoundedRow => {
    const spread = spreadOf(
      times.map(({ tookMs }) => percentile(tookMs, share === 'p50' ? 0.5 : 0.99)),
    );
    return {
      title: `${title}, ${share}`,
      ours: spread.median,
      spread,
      unit: 'ms',
      atMost,
      notes,
      problems:
        holderBusy > HOLDER_BUSY
          ? ['who holds the sockets was too busy, and may be what was measured']
          : [],
      run: { times },
    };
  };
  return [
    toRow('p50', [
      `CPU time of the service: ${cpuMs.toFixed(2)} ms each; ` +
        `who holds the sockets is busy for ${percent(holderBusy)} of a core at most`,
    ]),
    toRow('p99', [`worst of ${runs.length * UPDATES[kind]}: ${worst.toFixed(1)} ms`]),
  ];
}
