import { chmod, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/**
 * Starts a command like systemd-run: it gets no variables of the caller, and has its own session, which signals to the
 * caller do not reach. Stores the id of the process in a file with the name of the unit.
 */
export const FAKE_SYSTEMD_RUN = `#!/bin/bash
variables=()
while [[ $1 == --* ]]; do
  case $1 in
    --setenv=*) variables+=("\${1#--setenv=}") ;;
    --property=EnvironmentFile=*) mapfile -t lines < "\${1#*EnvironmentFile=}"; variables+=("\${lines[@]}") ;;
    --unit=*) unit=$(dirname "$0")/\${1#--unit=} ;;
  esac
  shift
done
cd /
exec setsid --wait bash --norc -c 'echo $$ > "$0"; exec env -i "$@"' "$unit" PATH="$PATH" "\${variables[@]}" "$@"
`;

/** Fails like systemctl if the unit is unknown. */
const FAKE_SYSTEMCTL = `#!/bin/bash
[[ $1 == stop ]] && kill "$(cat "$(dirname "$0")/$2")"
`;

/** The paths in deploy/systemd/nutpost, as a test replaces them. */
export interface SystemdPaths {
  /** Instead of /etc/nutpost.env. */
  settings: string;
  /** Instead of /var/lib/nutpost. */
  dataDir: string;
}

/** Installs deploy/systemd/nutpost into a folder, with programs that replace systemd, and writes its settings. */
export async function installSystemdScript(
  folder: string,
  settings: Readonly<Record<string, string>>,
  paths: SystemdPaths,
): Promise<void> {
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(paths.settings, lines.join(''), { mode: 0o600 });
  const script = await readFile(path.join(ROOT, 'deploy/systemd/nutpost'), 'utf8');
  const programs = {
    nutpost: script
      .replace('=/opt/nutpost/current\n', `=${ROOT}\n`)
      .replace(':-/etc/nutpost.env}', `:-${paths.settings}}`)
      .replace('=/var/lib/nutpost ', `=${paths.dataDir} `),
    'systemd-run': FAKE_SYSTEMD_RUN,
    systemctl: FAKE_SYSTEMCTL,
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(path.join(folder, name), text);
    await chmod(path.join(folder, name), 0o755);
  }
}
