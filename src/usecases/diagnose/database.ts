import { type Finding, note, ok, problem, warning } from '../../domain/finding.ts';
import type { DataDirFacts } from '../../store/data-dir-facts.ts';
import type { DatabaseContents, DatabaseFacts } from '../../store/examination-store.ts';

/** What was seen of the database that the settings name. */
export type DatabaseLook =
  /** In the words of who tried. */
  | { outcome: 'unreachable'; reason: string }
  /** There is none yet, in the data directory. */
  | { outcome: 'absent' }
  /** The data directory is not ours to use. */
  | { outcome: 'closed' }
  /** It was there, and did not do what was asked: in its own words, with its SQLSTATE where it has one. */
  | { outcome: 'failed'; reason: string; code: string | null }
  | { outcome: 'seen'; facts: DatabaseFacts };

/** What a database is judged by. */
export interface DatabaseToCheck {
  look: DatabaseLook;
  /** Null where the database is on a server. */
  dataDir: DataDirFacts | null;
  /** Whether what one connection tells reaches another (LISTEN); null where that was not tried. */
  isHeard: boolean | null;
  /** The public key of the key that signs receipts, in hex; null: there is none. */
  zapPubkey: string | null;
  /** Names the treasury secret; null: there is none. */
  treasuryKeyId: string | null;
}

/** The oldest version that is tried, as PostgreSQL counts them. */
const OLDEST_VERSION = 150_000;

/** A process has up to ten for its work, one that listens, and one while it brings tables up to date. */
const CONNECTIONS_OF_PROCESS = 12;

/** PostgreSQL's `insufficient_privilege`. */
const FORBIDDEN = '42501';

const GRANT_ADVICE =
  'Give the tables to this user (`reassign owned by <the other> to <this one>`), so that it can also bring them up to' +
  ' date; what serves alone does with `grant select, insert, update, delete on all tables in schema public`.';

/** Some hundred thousand quotes, and what the database writes ahead. */
const LITTLE_SPACE_BYTES = 1024 ** 3;

/** Looks at what was seen of the database. */
export function checkDatabase(check: DatabaseToCheck): Finding[] {
  const { look, dataDir } = check;
  return [
    ...directory(dataDir, look.outcome === 'closed'),
    ...(look.outcome === 'seen' ? seen(look.facts, check) : unseen(look, check)),
  ];
}

/** @param isClosed nobody told what is in it */
function directory(dataDir: DataDirFacts | null, isClosed: boolean): Finding[] {
  if (dataDir === null) {
    return [];
  }
  if (isClosed && dataDir.trouble !== null) {
    return [
      problem(
        'database.directory',
        `DATA_DIR: ${dataDir.path} cannot be used (${dataDir.trouble})`,
        'Give it to the user that the service runs as, or name another directory.',
      ),
    ];
  }
  if (isClosed && dataDir.owner === 'others') {
    return [
      problem(
        'database.owner',
        `DATA_DIR: ${dataDir.path} belongs to another user, and was not opened: what this one makes in it is not that one’s to change`,
        'Run this command, and the service, as the user that the directory belongs to.',
      ),
    ];
  }
  return dataDir.freeBytes >= LITTLE_SPACE_BYTES
    ? []
    : [
        warning(
          'database.space',
          `DATA_DIR: there are ${Math.floor(dataDir.freeBytes / 1024 ** 2)} MB left for ${dataDir.path}`,
          'Make room: a database without room takes no payment.',
        ),
      ];
}

function unseen(
  look: Exclude<DatabaseLook, { outcome: 'seen' }>,
  { dataDir }: DatabaseToCheck,
): Finding[] {
  if (look.outcome === 'absent') {
    return [
      note(
        'database.absent',
        `There is no database in ${dataDir?.path} yet: the first start makes it`,
      ),
    ];
  }
  if (look.outcome === 'closed') {
    return [];
  }
  if (look.outcome === 'failed') {
    return [failed(look, dataDir)];
  }
  const advice =
    dataDir === null
      ? 'Is the server up, and are host, name and password of DATABASE_URL right?'
      : 'Wait a moment and try again; the log of the other process says what it does.';
  return [problem('database.unreachable', look.reason, advice)];
}

function failed(
  { reason, code }: Extract<DatabaseLook, { outcome: 'failed' }>,
  dataDir: DataDirFacts | null,
): Finding {
  const said = code === null ? reason : `${reason} (${code})`;
  if (code === FORBIDDEN) {
    return problem('database.rights', `The database refuses this user: ${said}`, GRANT_ADVICE);
  }
  return dataDir === null
    ? problem(
        'database.failed',
        `The database could not be looked at: ${said}`,
        'The log of the server says more.',
      )
    : problem(
        'database.failed',
        `The database in ${dataDir.path} could not be looked at: ${said}`,
        'Try again. If it stays, its files are damaged: keep them as they are, and restore a backup into another DATA_DIR.',
      );
}

function seen(facts: DatabaseFacts, check: DatabaseToCheck): Finding[] {
  const where = check.dataDir === null ? '' : `, embedded, in ${check.dataDir.path}`;
  const isServer = check.dataDir === null;
  return [
    ok('database.reached', `PostgreSQL ${facts.version}${where}`),
    ...(isServer ? server(facts, check.isHeard) : []),
    ...tables(facts),
    ...(facts.contents === null ? [] : contents(facts.contents, check)),
  ];
}

function server(facts: DatabaseFacts, isHeard: boolean | null): Finding[] {
  const free = facts.maxConnections - facts.usedConnections;
  const found: (Finding | false)[] = [
    facts.versionNumber < OLDEST_VERSION &&
      problem('database.version', 'The server is older than PostgreSQL 15', 'Upgrade the server.'),
    facts.encoding !== 'UTF8' &&
      problem(
        'database.encoding',
        `The database is in ${facts.encoding}: it cannot keep what payers write`,
        'Make one with `create database ... encoding UTF8 template template0`.',
      ),
    facts.isReadOnly &&
      problem(
        'database.read_only',
        'The database takes no changes: it is a standby, or set to be read only',
        'Point DATABASE_URL to the primary server.',
      ),
    !facts.isDurable &&
      warning(
        'database.durability',
        'A crash of the server may lose payments that were recorded',
        'Set fsync, full_page_writes and synchronous_commit to on.',
      ),
    free < CONNECTIONS_OF_PROCESS &&
      warning(
        'database.connections',
        `${facts.usedConnections} of ${facts.maxConnections} connections are taken: there may be none for a process more`,
        `Raise max_connections: each process has up to ${CONNECTIONS_OF_PROCESS}.`,
      ),
    isHeard === false &&
      problem(
        'database.unheard',
        'What one connection tells (NOTIFY) does not reach another that listens',
        'Point DATABASE_URL to the server itself: a pooler that shares connections (such as PgBouncer with' +
          ' pool_mode=transaction) cannot pass it on.',
      ),
    isHeard === true && ok('database.heard', 'Processes hear each other through it (LISTEN)'),
  ];
  return found.filter((each) => each !== false);
}

function tables(facts: DatabaseFacts): Finding[] {
  const {
    missingRights,
    missingMigrations,
    unknownMigrations,
    contents: found,
    canCreateTables,
  } = facts;
  const [lacking] = missingRights;
  if (lacking !== undefined) {
    return [
      problem(
        'database.rights',
        `This user lacks ${missingRights.length} rights over the tables (${lacking} is the first): the service does not start, or fails`,
        GRANT_ADVICE,
      ),
    ];
  }
  const [newest] = unknownMigrations.toReversed();
  if (newest !== undefined) {
    return [
      problem(
        'database.newer',
        `Its tables are of a newer version of nutpost (${newest}): this one does not start with them`,
        'Run the newer version, or restore the backup that was made before the upgrade.',
      ),
    ];
  }
  if (missingMigrations.length === 0) {
    return found === null ? [] : [ok('database.tables', 'Its tables are of this version')];
  }
  if (!canCreateTables) {
    return [
      problem(
        'database.rights',
        'Tables are missing, and this user may not make any',
        'Make the user the owner of the database, or `grant create on schema public` to it.',
      ),
    ];
  }
  return [
    note(
      'database.older',
      `${missingMigrations.length} steps are missing to the tables of this version (${missingMigrations[0]} is the first)`,
      'The next start takes them, and so does `nutpost migrate`.',
    ),
  ];
}

function contents(found: DatabaseContents, check: DatabaseToCheck): Finding[] {
  const { processes } = found;
  return [
    processes === 0
      ? note('database.no_process', 'No process of the service is alive')
      : ok(
          'database.processes',
          `${processes} ${processes === 1 ? 'process' : 'processes'} of the service alive`,
        ),
    ...zapKey(found, check),
    ...treasury(found, check),
  ];
}

function zapKey({ receiptKey, openReceipts }: DatabaseContents, check: DatabaseToCheck): Finding[] {
  if (receiptKey === null || receiptKey === check.zapPubkey) {
    return [];
  }
  const open = openReceipts === 0 ? '' : ` (${openReceipts} are on their way)`;
  return check.zapPubkey === null
    ? [
        warning(
          'zaps.key_missing',
          `The database has zap receipts${open}, and ZAP_SECRET_KEY is not given: a process without it records zaps without a receipt`,
          'Give every process the same ZAP_SECRET_KEY, or none where zaps are to end.',
        ),
      ]
    : [
        warning(
          'zaps.key_changed',
          `The newest zap receipt${open} was signed with another key than ZAP_SECRET_KEY`,
          'Give every process the same ZAP_SECRET_KEY. After a change of it, this ends with the next zap.',
        ),
      ];
}

function treasury(found: DatabaseContents, { treasuryKeyId }: DatabaseToCheck): Finding[] {
  if (!found.hasSealed || treasuryKeyId === found.treasuryKeyId) {
    return [];
  }
  const what =
    treasuryKeyId === null
      ? 'TREASURY_SECRET is not given, and there is ecash that only it can open'
      : 'TREASURY_SECRET is not the one that encrypted the ecash that is kept';
  return [
    problem(
      'treasury.secret',
      `${what}: the service does not start`,
      'Give the secret that was in use when names were sold; without it what was earned is lost.',
    ),
  ];
}
