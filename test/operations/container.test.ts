import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../../scripts/debian-packages.ts';
import { adaptCaddyfile, installReverseProxies } from '../../scripts/reverse-proxy.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import { readConfig } from '../../src/config.ts';
import { startTestMint } from '../helpers/mints/start-test-mint.ts';
import { findAssets } from '../helpers/web/find-assets.ts';

/** Tests the Dockerfile and the compose file without a container engine. test/image/ builds and runs a real image. */

/** The tests install npm and Debian packages. */
const INSTALL_TIMEOUT_MS = 300_000;
vi.setConfig({ testTimeout: INSTALL_TIMEOUT_MS, hookTimeout: INSTALL_TIMEOUT_MS });

const PROJECT_DIR = path.resolve(import.meta.dirname, '../..');

const readProjectFile = (name: string) => readFile(path.join(PROJECT_DIR, name), 'utf8');

/** The project files that `.dockerignore` does not exclude. */
let buildContext: string[];
let dockerfile: string;

beforeAll(async () => {
  dockerfile = (await readProjectFile('Dockerfile')).replaceAll(/\s*\\\n\s*/g, ' ');
  buildContext = excludeIgnoredFiles(
    await readProjectFile('.dockerignore'),
    await listProjectFiles(),
  );
});

describe('Dockerfile', () => {
  it('uses the required Node version, an unprivileged user, and a volume for DATA_DIR', async () => {
    const { engines } = JSON.parse(await readProjectFile('package.json'));
    const nodeVersion = /\d+/.exec(engines.node)?.[0];
    expect(findInstructions('FROM')).toEqual([
      `node:${nodeVersion}-slim AS dependencies`,
      `node:${nodeVersion}-slim AS web`,
      `node:${nodeVersion}-slim`,
    ]);
    expect(findInstructions('USER')).toEqual(['node']);
    expect(findInstructions('VOLUME')).toEqual([readImageEnv()['DATA_DIR']]);
    expect(readImageEnv()['HOST']).toBe('0.0.0.0');
  });

  it('has only the source and package files in its build context', () => {
    const topLevelEntries = new Set(buildContext.map((file) => file.split('/')[0]));
    expect([...topLevelEntries].toSorted()).toEqual(
      [
        ...['.npmrc', 'bin', 'demo', 'migrations', 'package-lock.json', 'package.json'],
        ...['scripts', 'src', 'tsconfig.json'],
      ].toSorted(),
    );
  });

  it('builds a service that becomes healthy, serves the pages and stops cleanly, without development packages', async () => {
    const webDir = await runBuildStage('web');
    const appDir = await runBuildStage('dependencies');
    expect(await listDevelopmentPackages(appDir)).toEqual([]);
    await copyFilesOfStage('', appDir);
    await cp(path.join(webDir, 'dist'), path.join(appDir, 'dist'), { recursive: true });
    const mint = await startTestMint();
    const env = {
      ...readImageEnv(),
      PATH: process.env['PATH'] ?? '',
      DATA_DIR: path.join(appDir, 'data'),
      PORT: String(await findFreePort('127.0.0.1')),
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
    };
    const startCommand = (command: string[]) => {
      const child = spawn(command[0] ?? '', command.slice(1), { cwd: appDir, env });
      onTestFinished(() => void child.kill('SIGKILL'));
      return child;
    };
    const runHealthCheck = async () => {
      const [code] = await once(startCommand(parseExecForm('HEALTHCHECK')), 'exit');
      return code;
    };
    expect(await runHealthCheck()).toBe(1);

    const service = startCommand(parseExecForm('CMD'));
    const stdout = text(service.stdout);
    const stderr = text(service.stderr);
    await vi.waitFor(
      async () => {
        expect(service.exitCode, 'exit code of the service').toBeNull();
        expect(await runHealthCheck()).toBe(0);
      },
      { timeout: INSTALL_TIMEOUT_MS, interval: 200 },
    );
    const origin = `http://127.0.0.1:${env.PORT}`;
    const page = await fetch(`${origin}/account`);
    const scriptPath = findAssets(await page.text()).find((path) => path.endsWith('.js'));
    const script = await fetch(`${origin}${scriptPath}`);
    expect(script.status).toBe(200);
    service.kill('SIGTERM');
    const [code] = await once(service, 'exit');
    expect({ code, stderr: await stderr }).toEqual({ code: 0, stderr: '' });
    expect(await stdout).toContain('nutpost has stopped');
  });
});

describe('compose file', () => {
  type ComposeService = Record<string, unknown> & { environment: Record<string, string> };
  let services: Record<'nutpost' | 'postgres' | 'caddy', ComposeService>;
  let volumes: Record<string, unknown>;
  let networks: { default: { enable_ipv6: boolean; ipam: { config: { subnet: string }[] } } };

  beforeAll(async () => {
    const file = await readProjectFile('docker-compose.yml');
    ({ services, volumes, networks } = parse(file, { merge: true }));
  });

  it('declares every named volume that it mounts, and mounts only existing project files', async () => {
    const mounts = Object.values(services).flatMap((service) => service['volumes'] as string[]);
    const sources = mounts.map((mount) => mount.split(':')[0] ?? '');
    const mountedFiles = sources.filter((source) => source.startsWith('./'));
    const namedVolumes = sources.filter((source) => !source.startsWith('./'));
    expect(namedVolumes.toSorted()).toEqual(Object.keys(volumes).toSorted());
    expect(mounts).toContain(`data:${readImageEnv()['DATA_DIR']}`);
    expect(await listProjectFiles()).toEqual(
      expect.arrayContaining(mountedFiles.map(path.normalize)),
    );
  });

  it('limits the privileges, memory, processes and logs of every service', () => {
    for (const [name, service] of Object.entries(services)) {
      expect(service, name).toMatchObject({
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        mem_limit: expect.stringMatching(/^\d+[mg]$/),
        pids_limit: expect.any(Number),
        logging: { driver: 'json-file', options: { 'max-size': '20m', 'max-file': '5' } },
      });
      expect(service['privileged'], name).toBeUndefined();
    }
    expect(services.nutpost).toMatchObject({ read_only: true, stop_grace_period: '20s' });
    expect(services.nutpost['cap_add']).toBeUndefined();
  });

  it('trusts only its own container networks as proxies, and publishes nutpost only on localhost', () => {
    const subnets = networks.default.ipam.config.map(({ subnet }) => subnet);
    // Without IPv6 in the containers, nutpost would not see the addresses of IPv6 clients.
    expect(networks.default.enable_ipv6).toBe(true);
    expect(subnets.map((subnet) => isIPv6(subnet.split('/')[0] ?? ''))).toEqual([false, true]);
    expect(services.nutpost.environment['TRUST_PROXY']).toBe(`\${TRUST_PROXY:-${subnets}}`);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: compose files name settings like this.
    expect(services.nutpost['ports']).toEqual(['127.0.0.1:${PUBLISHED_PORT:-3000}:3000']);
  });

  it.each(['https://one.example', 'https://one.example, https://two.example'])(
    'configures Caddy to serve the hosts of PUBLIC_ORIGINS="%s"',
    async (origins) => {
      expect(services.caddy.environment['PUBLIC_ORIGINS']).toBe(
        services.nutpost.environment['PUBLIC_ORIGINS'],
      );
      await installReverseProxies(['caddy']);
      const caddyfile = path.join(PROJECT_DIR, 'docker/Caddyfile');
      const { listen, routes } = (await adaptCaddyfile(caddyfile, { PUBLIC_ORIGINS: origins })).apps
        .http.servers.srv0;
      expect(listen).toEqual([':443']);
      const { publicOrigins } = readConfig({
        DEFAULT_MINT_URL: 'https://mint.example',
        PUBLIC_ORIGINS: origins,
      });
      expect(routes.flatMap(({ match }) => match.flatMap(({ host }) => host))).toEqual(
        publicOrigins.map((origin) => new URL(origin).host),
      );
    },
  );
});

async function runBuildStage(name: string): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'nutpost-image-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  await copyFilesOfStage(name, directory);
  for (const command of findInstructions('RUN', name)) {
    if (name === 'web' && command.startsWith('npm ci ')) {
      // The project has the same packages.
      await symlink(path.join(PROJECT_DIR, 'node_modules'), path.join(directory, 'node_modules'));
      continue;
    }
    const shellCommand = command.startsWith('[') ? JSON.parse(command).join(' ') : command;
    await runProgram('/bin/sh', ['-c', shellCommand], { cwd: directory });
  }
  return directory;
}

async function listDevelopmentPackages(directory: string): Promise<string[]> {
  const { packages } = JSON.parse(await readProjectFile('package-lock.json'));
  // npm marks a development package that is also an optional peer of another package with `devOptional`.
  return Object.keys(packages).filter(
    (name) =>
      (packages[name].dev || packages[name].devOptional) && existsSync(path.join(directory, name)),
  );
}

async function copyFilesOfStage(name: string, directory: string): Promise<void> {
  for (const file of buildContext.filter((contextFile) => isCopiedIntoStage(name, contextFile))) {
    await cp(path.join(PROJECT_DIR, file), path.join(directory, file));
  }
}

/** Returns the instructions of a build stage; the last stage has no name. */
function readStage(name: string): string {
  const [, ...stages] = dockerfile.split(/^FROM \S+/m);
  return stages.find((stage) => (/^ AS (\S+)/.exec(stage)?.[1] ?? '') === name) ?? '';
}

/** Returns the arguments of each instruction of a kind, such as `COPY`, in a stage or in all. */
function findInstructions(instruction: string, stageName?: string): string[] {
  const text = stageName === undefined ? dockerfile : readStage(stageName);
  const lines = text.matchAll(new RegExp(`^${instruction} (.+)$`, 'gm'));
  return [...lines].map(([, value = '']) => value);
}

/** Parses the exec form, a JSON array. The other form starts a shell, which does not forward signals. */
function parseExecForm(instruction: string): string[] {
  const [command = ''] = findInstructions(instruction).slice(-1);
  return JSON.parse(command.replace(/^[^[]*/, ''));
}

function readImageEnv(): Record<string, string> {
  const pairs = findInstructions('ENV').flatMap((value) => value.split(/\s+/));
  return Object.fromEntries(pairs.map((pair) => pair.split('=')));
}

/** Returns whether a `COPY` instruction copies a file of the build context into a stage. */
function isCopiedIntoStage(stageName: string, file: string): boolean {
  const sources = findInstructions('COPY', stageName)
    .filter((value) => !value.startsWith('--from'))
    .flatMap((value) => value.split(/\s+/).slice(0, -1));
  return sources.some((source) => file === source || file.startsWith(`${source}/`));
}

async function listProjectFiles(): Promise<string[]> {
  const { stdout } = await runProgram(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'],
    { cwd: PROJECT_DIR, maxBuffer: 2 ** 24 },
  );
  return stdout.split('\n').filter((file) => file !== '');
}

/** Supports only `*` and plain paths. As in Docker, the last matching line of `.dockerignore` decides. */
function excludeIgnoredFiles(dockerignore: string, files: readonly string[]): string[] {
  const patterns = dockerignore.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const matches = (file: string, name: string) =>
    name === '*' || file === name || file.startsWith(`${name}/`);
  return files.filter((file) => {
    const decidingPattern = patterns.findLast((each) => matches(file, each.replace(/^!/, '')));
    return decidingPattern?.startsWith('!') ?? true;
  });
}
