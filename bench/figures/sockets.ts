import { setTimeout as delay } from 'node:timers/promises';
import { type TestSocket, TestWallet } from '../../test/helpers/wallet.ts';
import { createDatabase } from '../harness/database.ts';
import type { Effort, Row, Run } from '../harness/figure.ts';
import { usageOf } from '../harness/processes.ts';
import { type Server, startService, startTestMint } from '../harness/servers.ts';

/** A kilobyte has 1,024 bytes. */
const MAX_KB = 12;

/** If a process may open 20,000 files, this leaves some for other uses. */
const SOCKETS = 19_900;

/** Handshakes at a time. */
const CONCURRENCY = 32;

/** What follows a start, or the last handshake, is over by then. */
const SETTLING_MS = 5_000;

/**
 * Memory of an authenticated quote socket: the growth of the service's resident memory, divided by the
 * number of sockets. Every socket has a key of its own. The system's buffers are not part of it.
 */
export async function measureSockets(serverUrl: string, effort: Effort): Promise<Row[]> {
  await using mint = await startTestMint();
  await using database = await createDatabase(serverUrl);
  const runs: Run[] = [];
  for (let run = 0; run < effort.runs; run += 1) {
    await using service = await startService(mint.ready.url, database);
    await delay(SETTLING_MS);
    const before = await usageOf(service);
    const sockets = await openSockets(service);
    await delay(SETTLING_MS);
    const after = await usageOf(service);
    for (const { connection } of sockets) {
      connection.terminate();
    }
    runs.push({ nutpost: ((after.rssMb - before.rssMb) * 1024) / SOCKETS });
  }
  return [
    {
      title: `memory of a quote socket, ${SOCKETS.toLocaleString('en')} of them`,
      unit: 'KB',
      runs,
      bound: { atMost: MAX_KB },
      problems: [],
    },
  ];
}

async function openSockets(service: Server): Promise<TestSocket[]> {
  const sockets: TestSocket[] = [];
  const left = Array.from({ length: SOCKETS }).values();
  const openInTurn = async () => {
    for (const _ of left) {
      sockets.push(await new TestWallet(service.ready.url).openSocket());
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, openInTurn));
  return sockets;
}
