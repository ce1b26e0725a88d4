import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import packageJson from '../../package.json' with { type: 'json' };
import { runProgram } from '../../scripts/debian-packages.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { VERSION } from '../../src/version.ts';
import { eventually } from '../helpers/eventually.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { findAssets } from '../helpers/web/find-assets.ts';
import { installRequiredPrograms } from './documents/example-environment.ts';
import { parseMarkdown } from './documents/markdown.ts';
import { FAKE_SETPRIV } from './documents/systemd-script.ts';

/**
 * Packs the npm package, and uses it as operators do: from a machine with only Node to a payment that was collected, backed
 * up and restored, and to another version. The commands are those of the guides. systemd-files.test.ts checks the units.
 */

/** The package has thousands of files. */
vi.setConfig({ testTimeout: 400_000, hookTimeout: 400_000 });

const ROOT = path.resolve(import.meta.dirname, '../..');

const TARBALL = `nutpost-${packageJson.version}.tgz`;

let folder: string;
/** The unpacked package. */
let unpacked: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'nutpost-package-'));
  await runProgram('npm', ['pack', '--pack-destination', folder], { cwd: ROOT });
  await runProgram('tar', ['-xf', TARBALL], { cwd: folder });
  unpacked = path.join(folder, 'package');
});

afterAll(() => rm(folder, { recursive: true, force: true }));

it('contains the packages that the service needs, and no others', async () => {
  const { packages } = JSON.parse(await readFile(path.join(ROOT, 'package-lock.json'), 'utf8'));
  // npm marks a development package that is also an optional peer of another package with `devOptional`.
  const isForDevelopment = (name: string) => packages[name].dev || packages[name].devOptional;
  const needed = Object.keys(packages).filter(
    (name) => name !== '' && !packages[name].optional && !isForDevelopment(name),
  );
  const { stdout } = await runProgram('tar', ['-tf', TARBALL], { cwd: folder, maxBuffer: 2 ** 24 });
  const manifests = stdout.matchAll(
    /^package\/((?:.+\/)?node_modules\/(?:@[^/\n]+\/)?[^/\n]+)\/package\.json$/gm,
  );
  const bundled = Array.from(manifests, ([, name = '']) => name);
  expect(bundled).toEqual(expect.arrayContaining(needed));
  expect(bundled.filter(isForDevelopment)).toEqual([]);
});

describe('installed with npm install --global, on a machine with only Node and npm', () => {
  let env: Record<string, string>;

  beforeAll(async () => {
    const bin = path.join(folder, 'node');
    await mkdir(bin);
    await symlink(process.execPath, path.join(bin, 'node'));
    const prefix = path.join(folder, 'global');
    env = { HOME: folder, PATH: `${path.join(prefix, 'bin')}:${bin}:/usr/bin:/bin` };
    // Without a registry: everything is in the package.
    const args = ['install', '--global', '--offline', '--prefix', prefix, `./${TARBALL}`];
    await runProgram('npm', args, { cwd: folder, env });
  });

  const startNutpost = (command: string, settings: Record<string, string> = {}) => {
    const child = spawn('nutpost', [command], { cwd: folder, env: { ...env, ...settings } });
    onTestFinished(() => void child.kill('SIGKILL'));
    const output = Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    const result = output.then(([stdout, stderr, [code]]) => ({ stdout, stderr, code }));
    return { child, result };
  };

  it('prints its version', async () => {
    expect(await startNutpost('--version').result).toEqual({
      stdout: `${VERSION}\n`,
      stderr: '',
      code: 0,
    });
  });

  it('runs the demo, up to the ecash in the wallet', async () => {
    expect(await startNutpost('demo').result).toEqual({
      stdout: expect.stringContaining('121 sat in 6 unspent proofs'),
      stderr: '',
      code: 0,
    });
  });

  it('runs the service with its pages, and names its version everywhere', async () => {
    const mint = await startTestMint();
    const [port, metricsPort] = [await findFreePort('127.0.0.1'), await findFreePort('127.0.0.1')];
    const { child, result } = startNutpost('serve', {
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
      DATA_DIR: path.join(folder, 'data'),
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
    });
    const origin = `http://127.0.0.1:${port}`;
    const page = await eventually(async () => await (await fetch(`${origin}/account`)).text());
    expect(page).toContain(`nutpost ${VERSION}<`);
    for (const file of findAssets(page)) {
      expect((await fetch(`${origin}${file}`)).status, file).toBe(200);
    }
    const { body } = await requestJson(origin, '/api/v2/openapi.json');
    expect(body.info.version).toBe(VERSION);
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    expect(metrics).toContain(`nutpost_build_info{version="${VERSION}"} 1`);
    child.kill('SIGTERM');
    expect(await result).toMatchObject({ stderr: '', code: 0 });
  });
});

it('is installed, paid, backed up, restored, upgraded and taken back with the commands of the guides', async () => {
  const machine = await Machine.create();
  const { version } = packageJson;
  const current = { selected: version, running: version };
  await machine.publish(version);

  const [checkNode, install, configure, start, ...rest] = machine.readCommands(
    'docs/operations/deployment.md',
    'Without containers',
  );
  await machine.run(`${checkNode}${install}`);
  await machine.addSettings();
  await machine.run(`${configure}${start}`);
  expect(await machine.readState()).toEqual(current);
  expect(await machine.run(rest.join(''))).toContain('0 problems');

  const wallet = new RecipientClient(machine.origin);
  const collectedInvoice = await machine.requestInvoice(wallet, 21);
  const openInvoice = await machine.requestInvoice(wallet, 42);
  const [quote] = await machine.pay(wallet, collectedInvoice, 1);
  const payer = await EcashPayer.open(machine.mint);
  const proofs = await payer.wallet.mintProofsBolt11(21, String(quote?.['quoteId']));
  expect(proofs.reduce((sum, { amount }) => sum + Number(amount), 0)).toBe(21);

  const [backUp = ''] = machine.readCommands('docs/operations/backup.md', 'Every day');
  expect(await machine.run(backUp)).toContain('last payment  21 sat');
  await machine.pay(wallet, await machine.requestInvoice(wallet, 84), 2);
  await machine.run(machine.readCommands('docs/operations/backup.md', 'SQLite').join(''));
  expect(await machine.readState()).toEqual(current);
  expect(await wallet.listPaidQuotes()).toMatchObject([{ amount: 21 }]);
  expect(await machine.pay(wallet, openInvoice, 2)).toMatchObject([{ amount: 42 }, { amount: 21 }]);

  const [upgrade = ''] = machine.readCommands('docs/operations/upgrades.md', 'Upgrade');
  const upgradeTo = (next: string) => upgrade.replace(/^version=.*$/m, `version=${next}`);
  await machine.publish('9.0.0');
  await machine.run(upgradeTo('9.0.0'));
  const upgraded = { selected: '9.0.0', running: '9.0.0' };
  expect(await machine.readState()).toEqual(upgraded);

  await machine.publish('9.0.1', { isDamaged: true });
  expect(await machine.run(upgradeTo('9.0.1'))).toContain('computed checksum did NOT match');
  expect(await machine.readState()).toEqual(upgraded);

  await machine.publish('9.0.2', { startError: 'the service does not start' });
  expect(await machine.run(upgradeTo('9.0.2'))).toContain('so 9.0.0 runs again');
  expect(await machine.readState()).toEqual(upgraded);

  const [goBack = ''] = machine.readCommands(
    'docs/operations/upgrades.md',
    'Go back to an older version',
  );
  await machine.run(goBack);
  expect(await machine.readState()).toEqual(current);
  expect(await wallet.listPaidQuotes()).toHaveLength(2);
});

/**
 * Starts the service and its backups as their units say. Never restarts the service, but counts restarts while it does
 * not run.
 */
const FAKE_SYSTEMCTL = `#!/bin/bash
cd "$(dirname "$0")"
unit=\${!#}
read_unit() { sed -n "s/^$1=//p" ../etc/systemd/system/$unit.service; }
execute() {
  for directory in $(read_unit StateDirectory); do mkdir -p -m 700 ../var/lib/$directory; done
  exec env -i PATH="$PATH" $(read_unit Environment) setsid $(read_unit ExecStart) < /dev/null
}
is_running() { [[ -e pid ]] && kill -0 "$(cat pid)" 2>/dev/null; }
stop() {
  if is_running; then
    kill "$(cat pid)"
    while is_running; do sleep 0.1; done
  fi
}
case "$1 $unit" in
  "is-active nutpost") is_running ;;
  "show nutpost") is_running && echo 0 || date +%s%N ;;
  "stop nutpost") stop ;;
  "enable nutpost" | "start nutpost" | "restart nutpost")
    stop
    execute > ../log 2>&1 &
    echo $! > pid
    ;;
  "start nutpost-backup") (execute) ;;
esac
`;

/** A machine with a fake systemd, whose root is a folder, and a site with releases. */
class Machine {
  readonly #root: string;
  readonly #port: number;
  readonly mint: TestMint;
  readonly origin: string;

  static async create(): Promise<Machine> {
    await installRequiredPrograms();
    const root = path.join(folder, 'machine');
    for (const name of ['bin', 'etc/systemd/system', 'opt', 'releases', 'tmp', 'var/lib']) {
      await mkdir(path.join(root, name), { recursive: true });
    }
    const programs = {
      systemctl: FAKE_SYSTEMCTL,
      setpriv: FAKE_SETPRIV,
      runuser: '#!/bin/bash\nshift 3\nexec "$@"\n',
      id: '#!/bin/sh\necho root\n',
      ...Object.fromEntries(['chown', 'journalctl'].map((name) => [name, '#!/bin/sh\n'])),
    };
    for (const [name, script] of Object.entries(programs)) {
      await writeFile(path.join(root, 'bin', name), script, { mode: 0o755 });
    }
    const machine = new Machine(root, await startTestMint(), await findFreePort('127.0.0.1'));
    onTestFinished(async () => void (await machine.run('systemctl stop nutpost')));
    return machine;
  }

  private constructor(root: string, mint: TestMint, port: number) {
    this.#root = root;
    this.#port = port;
    this.mint = mint;
    this.origin = `http://localhost:${port}`;
  }

  /** Returns the blocks of commands in a section of a guide. */
  readCommands(guide: string, heading: string): string[] {
    const lines = readFileSync(path.join(ROOT, guide), 'utf8').split('\n');
    const start = lines.findIndex((line) => /^#+ /.test(line) && line.endsWith(`# ${heading}`)) + 1;
    const length = lines.slice(start).findIndex((line) => /^##+ /.test(line));
    const section = lines.slice(start, length < 0 ? undefined : start + length).join('\n');
    const { blocks } = parseMarkdown(section);
    const commands = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text);
    expect(commands, heading).not.toEqual([]);
    return commands;
  }

  /** Adds the settings that a test needs, in addition to those of the guide. */
  async addSettings(): Promise<void> {
    const lines = `ALLOW_PRIVATE_NETWORKS=true\nPORT=${this.#port}\n`;
    await appendFile(path.join(this.#root, 'etc/nutpost/nutpost.env'), lines);
  }

  async requestInvoice({ npub }: RecipientClient, amountSat: number): Promise<string> {
    const lnurlPath = `/.well-known/lnurlp/${npub}?amount=${amountSat * 1000}`;
    return (await requestJson(this.origin, lnurlPath)).body.pr;
  }

  /** Pays an invoice. @returns the payments of the recipient as soon as there are as many as expected */
  async pay(wallet: RecipientClient, invoice: string, expectedCount: number) {
    this.mint.pay(invoice);
    return await eventually(async () => {
      const payments = await wallet.listPaidQuotes();
      expect(payments).toHaveLength(expectedCount);
      return payments;
    });
  }

  /** Puts a release with another version on the site. It uses the folders of this machine. */
  async publish(version: string, options: { isDamaged?: boolean; startError?: string } = {}) {
    const release = path.join(this.#root, 'releases', `v${version}`);
    const content = path.join(release, 'package');
    await mkdir(release);
    await runProgram('cp', ['--archive', unpacked, content]);
    await writeFile(path.join(content, 'dist/version'), version);
    for (const name of await readdir(path.join(content, 'deploy/systemd'))) {
      const file = path.join(content, 'deploy/systemd', name);
      const script = await readFile(file, 'utf8');
      await writeFile(file, this.#toActual(script));
    }
    if (options.startError !== undefined) {
      const file = path.join(content, 'dist/src/service.js');
      await writeFile(file, `export function startService() { throw '${options.startError}' }`);
    }
    const archive = `nutpost-${version}.tgz`;
    await runProgram('tar', ['-cf', archive, 'package'], { cwd: release });
    await rm(content, { recursive: true });
    const bytes = await readFile(path.join(release, archive));
    const hash = createHash('sha256').update(bytes).digest('hex');
    await writeFile(path.join(release, 'SHA256SUMS'), `${hash}  ${archive}\n`);
    if (options.isDamaged) {
      await writeFile(path.join(release, archive), bytes.subarray(1));
    }
  }

  /** Runs commands as a person pastes them: the shell continues after one that fails. @returns what they print */
  async run(commands: string): Promise<string> {
    const PATH = [
      path.join(this.#root, 'bin'),
      path.dirname(process.execPath),
      process.env['PATH'],
    ];
    const env = { PATH: PATH.join(':'), TMPDIR: path.join(this.#root, 'tmp') };
    const script = `exec 2>&1\n${this.#toActual(commands)}\ntrue`;
    return (await runProgram('bash', ['-c', script], { env })).stdout;
  }

  /** Returns the selected version, and the one that the service reports once it is ready. */
  async readState(): Promise<{ selected: string; running: string }> {
    const selected = await readlink(path.join(this.#root, 'opt/current'));
    const { body } = await eventually(() => requestJson(this.origin, '/api/v2/openapi.json'));
    return { selected, running: body.info.version };
  }

  #toActual(text: string): string {
    return text
      .replaceAll(
        'https://github.com/OWNER/nutpost/releases/download',
        `file://${this.#root}/releases`,
      )
      .replaceAll('https://mint.example', this.mint.url)
      .replaceAll('https://pay.example', this.origin)
      .replaceAll('/var/lib/', `${path.join(this.#root, 'var/lib')}/`)
      .replaceAll('/opt/nutpost', path.join(this.#root, 'opt'))
      .replaceAll('/usr/local/bin/', `${path.join(this.#root, 'bin')}/`)
      .replaceAll('/etc/', `${path.join(this.#root, 'etc')}/`)
      .replaceAll(/ (?:-[og] |--(?:owner|group)=)nutpost/g, '');
  }
}
