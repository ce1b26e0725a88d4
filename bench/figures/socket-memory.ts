import { setTimeout as delay } from 'node:timers/promises';
import { type TestQuoteSocket, TestWallet } from '../../test/helpers/test-wallet.ts';
import { createPostgresDatabase } from '../harness/database.ts';
import type { BenchmarkOptions, Measurement, ResultRow } from '../harness/figure.ts';
import { readProcessUsage } from '../harness/processes.ts';
import { type Server, startNutpost, startTestMint } from '../harness/servers.ts';

/** In units of 1,024 bytes. */
const MAX_KB = 12;

/** Leaves room for other files under a limit of 20,000 open files. */
const SOCKET_COUNT = 19_900;

/** Concurrent handshakes. */
const CONCURRENCY = 32;

/** Lets the work after a start, or after the last handshake, finish. */
const STABILIZATION_MS = 5_000;

/**
 * Measures the memory of an authenticated quote socket: the growth of the service's resident memory divided
 * by the number of sockets. Every socket has a different key. Kernel buffers are not included.
 */
export async function measureSocketMemory(
  serverUrl: string,
  effort: BenchmarkOptions,
): Promise<ResultRow[]> {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  const runs: Measurement[] = [];
  for (let run = 0; run < effort.runCount; run += 1) {
    await using service = await startNutpost(mint.readyMessage.url, database);
    await delay(STABILIZATION_MS);
    const before = await readProcessUsage(service);
    const sockets = await openSockets(service);
    await delay(STABILIZATION_MS);
    const after = await readProcessUsage(service);
    for (const { connection } of sockets) {
      connection.terminate();
    }
    runs.push({ service: ((after.rssMb - before.rssMb) * 1024) / SOCKET_COUNT });
  }
  return [
    {
      title: `memory of a quote socket, ${SOCKET_COUNT.toLocaleString('en')} of them`,
      unit: 'KB',
      runs,
      bound: { maxValue: MAX_KB },
      problems: [],
    },
  ];
}

async function openSockets(service: Server): Promise<TestQuoteSocket[]> {
  const sockets: TestQuoteSocket[] = [];
  const remaining = Array.from({ length: SOCKET_COUNT }).values();
  const openInTurn = async () => {
    for (const _ of remaining) {
      sockets.push(await new TestWallet(service.readyMessage.url).openSocket());
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, openInTurn));
  return sockets;
}
