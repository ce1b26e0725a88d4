import pg from 'pg';
import { CONNECT_TIMEOUT_MS } from './limits.ts';
import { createClientConfig } from './postgres.ts';

/** A load balancer may divide connections between two poolers. Of three clients, two then share one of them. */
const CLIENT_COUNT = 3;

/** While a pooler is busy, a client may by chance get the same server process in the first rounds. */
const ROUND_COUNT = 5;

/** Finds out which database a URL leads to, and whether through a pooler that shares connections between clients. */
export async function probeConnections(url: string) {
  // With a timeout, because a pooler in session mode lets clients wait while all of its connections are in use.
  const config = { ...createClientConfig(url), query_timeout: CONNECT_TIMEOUT_MS };
  const clients = Array.from({ length: CLIENT_COUNT }, () => new pg.Client(config));
  const processesByClient = clients.map(() => new Set<number>());
  let databaseId = '';
  try {
    for (const client of clients) {
      // An unhandled 'error' event ends the process. The query on a broken connection fails too.
      client.on('error', () => undefined);
      await client.connect();
    }
    for (let round = 0; round < ROUND_COUNT; round += 1) {
      for (const [index, client] of clients.entries()) {
        // Two in a row, because a pooler may use its connections in turn: each client might always get the same one.
        for (const { rows } of [await client.query(PROBE), await client.query(PROBE)]) {
          databaseId = rows[0].databaseId;
          processesByClient[index]?.add(rows[0].processId);
        }
      }
    }
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()));
  }
  // Without sharing, one server process runs all queries of a client, and of no other client.
  const allProcesses = new Set(processesByClient.flatMap((processes) => [...processes]));
  const hasOneProcessPerClient =
    processesByClient.every((processes) => processes.size === 1) &&
    allProcesses.size === CLIENT_COUNT;
  return { databaseId, sharesConnections: !hasOneProcessPerClient };
}

/** Any user may read the start time, which differs between servers. */
const PROBE = `select pg_backend_pid() as "processId",
  concat(extract(epoch from pg_postmaster_start_time()), ' ', current_database()) as "databaseId"`;
