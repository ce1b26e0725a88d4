import pg from 'pg';
import { createClientConfig } from './postgres.ts';

/** Several, because a load balancer may divide connections between poolers. With two poolers, two of three share one. */
const CLIENT_COUNT = 3;

/** Several, because a client may get the same server process twice by chance while a pooler is busy. */
const ROUND_COUNT = 5;

/** A pooler in session mode lets clients wait if all of its connections are in use. */
const QUERY_TIMEOUT_MS = 5_000;

export interface ConnectionReport {
  /** Identifies the running server and the database. */
  databaseId: string;
  areShared: boolean;
}

/**
 * Opens several connections, and reads which server process runs their queries. In a session, all queries of a client
 * run in one process, and no other client uses that process.
 */
export async function probeConnections(url: string): Promise<ConnectionReport> {
  const config = { ...createClientConfig(url), query_timeout: QUERY_TIMEOUT_MS };
  const clients = Array.from({ length: CLIENT_COUNT }, () => new pg.Client(config));
  const usedProcesses = new Set<string>();
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
        for (const each of [await probe(client), await probe(client)]) {
          databaseId = each.databaseId;
          usedProcesses.add(`${index} ${each.processId}`);
        }
      }
    }
  } finally {
    await Promise.allSettled(clients.map((client) => client.end()));
  }
  const distinctProcesses = new Set([...usedProcesses].map((use) => use.split(' ')[1]));
  const areShared = usedProcesses.size > CLIENT_COUNT || distinctProcesses.size < CLIENT_COUNT;
  return { databaseId, areShared };
}

async function probe(client: pg.Client): Promise<{ processId: number; databaseId: string }> {
  // Any user may read the start time, which differs between servers.
  const { rows } = await client.query(
    `select pg_backend_pid() as "processId",
      concat(extract(epoch from pg_postmaster_start_time()), ' ', current_database()) as "databaseId"`,
  );
  return rows[0];
}
