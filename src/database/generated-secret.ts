import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { OperatorError } from '../errors.ts';

type GeneratedSecretName = 'jwt-secret' | 'treasury-secret';

/**
 * Returns a secret from the data directory; null if its file does not exist.
 *
 * @throws OperatorError if the file cannot be read or the secret is too short
 */
export function readGeneratedSecret(dataDir: string, name: GeneratedSecretName): string | null {
  const file = path.join(dataDir, name);
  let secret: string;
  try {
    secret = fs.readFileSync(file, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      return null;
    }
    throw new OperatorError(`${file}: cannot be read (${(error as Error).message}).`);
  }
  if (secret.length < 32) {
    // A new treasury secret could not decrypt the stored ecash.
    const removeHint = name === 'jwt-secret' ? ', or delete the file to generate a new secret' : '';
    throw new OperatorError(
      `${file}: the secret is too short, so the file is damaged. Restore it from a backup${removeHint}.`,
    );
  }
  return secret;
}

/** Generates the secret on first use. @throws OperatorError as {@link readGeneratedSecret} */
export function loadOrGenerateSecret(dataDir: string, name: GeneratedSecretName): string {
  const stored = readGeneratedSecret(dataDir, name);
  if (stored !== null) {
    return stored;
  }
  const file = path.join(dataDir, name);
  const secret = randomBytes(32).toString('hex');
  fs.writeFileSync(`${file}.new`, secret, { mode: 0o600, flush: true });
  fs.renameSync(`${file}.new`, file);
  return secret;
}
