import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { withPostgresPassword } from '../../config.ts';
import type { PostgresLocation } from '../../database/database.ts';
import { OperatorError } from '../../errors.ts';

type Program = 'pg_dump' | 'pg_restore';

const run = promisify(execFile);

/** Returns the main version of the installed pg_dump; null if there is none. */
export async function findDumpVersion(): Promise<number | null> {
  try {
    const { stdout } = await run('pg_dump', ['--version']);
    return Number(/ (\d+)\./.exec(stdout)?.[1]);
  } catch {
    return null;
  }
}

/** Runs a program of PostgreSQL with this database. @throws OperatorError with what it has printed if it fails */
export async function runPostgresProgram(
  program: Program,
  { url, listenUrl }: PostgresLocation,
  args: readonly string[],
): Promise<void> {
  // A pooler that shares connections, to which `url` may lead, breaks the session that these programs need.
  const address = toLibpqAddress(listenUrl ?? url);
  const env = withPostgresPassword(address.password);
  try {
    await run(program, [`--dbname=${address.url}`, ...args], { env });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new OperatorError(`${program} failed: ${(stderr || message).trim()}`);
  }
}

/** Those with a meaning that Node's driver and the programs of PostgreSQL share. Each rejects or ignores others. */
const SHARED_PARAMETERS = [
  ...['host', 'port', 'user', 'options'],
  ...['sslmode', 'sslrootcert', 'sslcert', 'sslkey'],
];

/** Translates a URL for Node's driver. Separates the password: all users can see the arguments of a process. */
export function toLibpqAddress(url: string): { url: string; password: string } {
  const address = new URL(url);
  const password = address.searchParams.get('password') ?? decodeURIComponent(address.password);
  address.password = '';
  const parameters = [...address.searchParams].filter(([name]) => SHARED_PARAMETERS.includes(name));
  const { sslmode, sslrootcert } = Object.fromEntries(parameters);
  if (sslmode === 'verify-full' && sslrootcert === undefined) {
    // The well-known certificate authorities, which Node trusts unless the URL names others.
    parameters.push(['sslrootcert', 'system']);
  }
  const texts = parameters.map(([name, value]) => {
    const translated = name === 'sslmode' && value === 'no-verify' ? 'require' : value;
    return `${name}=${encodeURIComponent(translated)}`;
  });
  address.search = texts.join('&');
  return { url: address.href, password };
}
