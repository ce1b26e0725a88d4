import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Runs a command like setpriv, but does not change the user. */
export const FAKE_SETPRIV = `#!/bin/sh
while [ "\${1#--}" != "$1" ]; do shift; done
exec "$@"
`;

/** Installs deploy/systemd/nutpost into a folder, and writes the settings that it uses. */
export async function installSystemdScript(
  folder: string,
  settingsFile: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(settingsFile, lines.join(''), { mode: 0o640 });
  const script = await readFile(path.join(ROOT, 'deploy/systemd/nutpost'), 'utf8');
  const programs = {
    nutpost: script
      .replace('/opt/nutpost/current', ROOT)
      .replace('/etc/nutpost/nutpost.env', settingsFile),
    setpriv: FAKE_SETPRIV,
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(path.join(folder, name), text, { mode: 0o755 });
  }
}
