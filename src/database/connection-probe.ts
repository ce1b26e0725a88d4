import pg from 'pg';
import { CONNECT_TIMEOUT_MS } from './limits.ts';
import { createClientConfig } from './postgres.ts';

/** Several, because a load balancer may divide connections between poolers. With two poolers, two of three share one. */
const CLIENT_COUNT = 3;

/** Several, because a client may get the same server process twice by chance while a pooler is busy. */
const ROUND_COUNT = 5;

interface ConnectionReport {
  databaseId: string;
  areShared: boolean;
}

/** In a session, one server process runs all queries of a client, and of no other client. */
export async function probeConnections(url: string): Promise<ConnectionReport> {
  // A pooler in session mode lets clients wait if all of its connections are in use.
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
        // A pooler may reuse its last connection or use all in turn. Two queries in a row detect the latter.
        for (const { rows } of [await client.query(PROBE), await client.query(PROBE)]) {
          databaseId = rows[0].databaseId;
          processesByClient[index]?.add(rows[0].processId);
        }
      }
    }
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()));
  }
  const uses = processesByClient.flatMap((processes) => [...processes]);
  return { databaseId, areShared: uses.length > CLIENT_COUNT || new Set(uses).size < CLIENT_COUNT };
}

/** Any user may read the start time, which differs between servers. */
const PROBE = `select pg_backend_pid() as "processId",
  concat(extract(epoch from pg_postmaster_start_time()), ' ', current_database()) as "databaseId"`;
