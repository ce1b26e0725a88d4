import { readFileSync } from 'node:fs';
import { OperatorError } from './errors.ts';

/**
 * Reads a file with one setting per line, such as `PORT=3000`. Lines that are empty or start with `#` are comments.
 * Removes quotes around a value, which a shell would need.
 *
 * @throws OperatorError if the file cannot be read, or a line is no setting
 */
export function readSettingsFile(file: string): Record<string, string> {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new OperatorError(`NUTPOST_ENV: ${file} cannot be read (${(error as Error).message}).`);
  }
  const settings: Record<string, string> = {};
  for (const [index, line] of text.split('\n').entries()) {
    const [, name, value = ''] = /^\s*([A-Z]\w*)=(.*)$/i.exec(line.trimEnd()) ?? [];
    if (name !== undefined) {
      settings[name] = value.trim().replace(/^(["'])(.*)\1$/, '$2');
    } else if (!/^\s*(?:#|$)/.test(line)) {
      // The line may be a secret.
      throw new OperatorError(`NUTPOST_ENV: line ${index + 1} of ${file} is not NAME=value.`);
    }
  }
  return settings;
}
