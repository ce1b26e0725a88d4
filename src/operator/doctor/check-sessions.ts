import { type ConnectionReport, probeConnections } from '../../database/connection-probe.ts';
import type { PostgresLocation } from '../../database/database.ts';
import { rootCauseMessage } from '../../errors.ts';
import { type Finding, problem } from './finding.ts';

/** Checks that the service has the sessions that it needs: for LISTEN, migrations and prepared statements. */
export async function findSessionProblem(location: PostgresLocation): Promise<Finding | null> {
  const { url, listenUrl } = location;
  let database: ConnectionReport;
  try {
    database = await probeConnections(url);
  } catch (error) {
    return problem(
      'database.connections',
      `The database accepts no further connections (${rootCauseMessage(error)})`,
      'Raise max_connections of the server, or the pool size of the pooler.',
    );
  }
  if (listenUrl === undefined) {
    return database.areShared
      ? problem(
          'database.pooler',
          'DATABASE_URL leads to a pooler that shares connections between transactions: notifications (LISTEN), migrations and prepared statements do not work',
          'Set DATABASE_LISTEN_URL to the URL of the server itself, of a proxy that always leads to the primary, or of a pooler in session mode (PgBouncer: pool_mode=session).',
        )
      : null;
  }
  let listening: ConnectionReport;
  try {
    listening = await probeConnections(listenUrl);
  } catch (error) {
    return problem(
      'database.listen_url',
      `DATABASE_LISTEN_URL: the database cannot be reached (${rootCauseMessage(error)})`,
      'Check that this machine may connect to the server without the pooler, and check the host, user and password.',
    );
  }
  if (listening.areShared) {
    return problem(
      'database.listen_url',
      'DATABASE_LISTEN_URL leads to a pooler that shares connections between transactions: notifications (LISTEN) and migrations do not work',
      'Set it to the URL of the server itself, or of a pooler in session mode (PgBouncer: pool_mode=session).',
    );
  }
  return listening.databaseId === database.databaseId
    ? null
    : problem(
        'database.listen_url',
        'DATABASE_LISTEN_URL and DATABASE_URL lead to different servers or databases',
        'Set it to the server to which the pooler connects (the primary), with the same database name.',
      );
}
