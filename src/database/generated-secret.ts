import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { OperatorError } from '../errors.ts';

/** As strong as the HS256 signatures and the encryption that are made with them. */
const SECRET_BYTES = 32;

/** Files of secrets, in the data directory. */
type SecretName = 'jwt-secret' | 'treasury-secret';

/** Whether {@link keptSecret} has made this secret before. */
export function hasKeptSecret(dataDir: string, name: SecretName): boolean {
  return fs.existsSync(path.join(dataDir, name));
}

/**
 * A secret of a service that was given none: made when it is first needed, then kept beside its
 * SQLite database, readable by its owner alone.
 */
export function keptSecret(dataDir: string, name: SecretName): string {
  const file = path.join(dataDir, name);
  if (!fs.existsSync(file)) {
    const unfinished = `${file}.new`;
    const secret = randomBytes(SECRET_BYTES).toString('hex');
    fs.writeFileSync(unfinished, secret, { mode: 0o600, flush: true });
    fs.renameSync(unfinished, file);
  }
  const kept = fs.readFileSync(file, 'utf8').trim();
  if (kept.length < SECRET_BYTES) {
    // What the other one encrypted is lost with it.
    const orRemove = name === 'jwt-secret' ? ', or remove it' : '';
    throw new OperatorError(
      `${file} is too short to be the secret that was made: restore it from a backup${orRemove}.`,
    );
  }
  return kept;
}
