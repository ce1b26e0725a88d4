import { setTimeout as delay } from 'node:timers/promises';
import {
  RecipientClient,
  type TestQuoteSocket,
} from '../../test/helpers/recipients/recipient-client.ts';
import { createPostgresDatabase } from '../harness/database.ts';
import type { Benchmark, Measurement } from '../harness/figure.ts';
import { readProcessUsage } from '../harness/processes.ts';
import { type Server, startNutpost, startTestMint } from '../harness/servers.ts';

/** In units of 1,024 bytes. */
const MAX_KB = 12;

/** A usual limit of 20,000 open files leaves 100 for other files. */
const SOCKET_COUNT = 19_900;

const CONCURRENT_HANDSHAKES = 32;

/** How long to wait until the service has finished the work after its start or after the last handshake. */
const STABILIZATION_MS = 5_000;

/**
 * Measures the memory of an authenticated quote socket: the growth of the service's resident memory divided
 * by the number of sockets. Every socket has a different key. Kernel buffers are not included.
 */
export const measureSocketMemory: Benchmark = async (serverUrl, options) => {
  await using mint = await startTestMint();
  await using database = await createPostgresDatabase(serverUrl);
  const runs: Measurement[] = [];
  for (let run = 0; run < options.runCount; run += 1) {
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
    },
  ];
};

async function openSockets(service: Server): Promise<TestQuoteSocket[]> {
  const sockets: TestQuoteSocket[] = [];
  const remainingSockets = Array.from({ length: SOCKET_COUNT }).values();
  // The workers share the iterator, so that each takes the next socket.
  const openRemaining = async () => {
    for (const _ of remainingSockets) {
      sockets.push(await new RecipientClient(service.readyMessage.url).openSocket());
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_HANDSHAKES }, openRemaining));
  return sockets;
}
