import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { OperatorError } from '../domain/errors.ts';

/** As strong as the HS256 signatures that are made with it. */
const SECRET_BYTES = 32;

/**
 * The secret of a service that was given none: made at the first start, then kept beside its
 * embedded database, readable by its owner alone.
 */
export function keptSecret(dataDir: string): string {
  const file = path.join(dataDir, 'jwt-secret');
  if (!fs.existsSync(file)) {
    const unfinished = `${file}.new`;
    const secret = randomBytes(SECRET_BYTES).toString('hex');
    fs.writeFileSync(unfinished, secret, { mode: 0o600, flush: true });
    fs.renameSync(unfinished, file);
  }
  const kept = fs.readFileSync(file, 'utf8').trim();
  if (kept.length < SECRET_BYTES) {
    throw new OperatorError(`${file} is too short to be the secret that was made; remove it.`);
  }
  return kept;
}
