import { type ConnectionReport, probeConnections } from '../../database/connection-probe.ts';
import type { PostgresLocation } from '../../database/database.ts';
import { rootCauseMessage } from '../../errors.ts';
import { type Finding, problem } from './finding.ts';

/** Checks that the service has the sessions that it needs: for LISTEN, migrations and prepared statements. */
export async function findSessionProblem({
  url,
  listenUrl,
}: PostgresLocation): Promise<Finding | null> {
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
          `DATABASE_URL ${SHARED_TEXT}, migrations and prepared statements do not work`,
          LISTEN_URL_ADVICE,
        )
      : null;
  }
  const listenProblem = (message: string) =>
    problem('database.listen_url', message, LISTEN_URL_ADVICE);
  let listening: ConnectionReport;
  try {
    listening = await probeConnections(listenUrl);
  } catch (error) {
    return listenProblem(
      `DATABASE_LISTEN_URL: the database cannot be reached (${rootCauseMessage(error)})`,
    );
  }
  if (listening.areShared) {
    return listenProblem(`DATABASE_LISTEN_URL ${SHARED_TEXT} and migrations do not work`);
  }
  return listening.databaseId === database.databaseId
    ? null
    : listenProblem('DATABASE_LISTEN_URL and DATABASE_URL lead to different servers or databases');
}

const SHARED_TEXT =
  'leads to a pooler that shares connections between transactions: notifications (LISTEN)';

const LISTEN_URL_ADVICE =
  'Set DATABASE_LISTEN_URL to the same database at the server itself, at a proxy that always leads to the primary, or at a pooler in session mode (PgBouncer: pool_mode=session), and check its host, user and password.';
