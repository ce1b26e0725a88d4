import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises';
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
import { startMint } from '../helpers/start-test-mint.ts';

/** The Dockerfile and the compose file, without a container engine. */

/** Packages are installed. */
const INSTALL_TIMEOUT_MS = 300_000;
vi.setConfig({ testTimeout: INSTALL_TIMEOUT_MS, hookTimeout: INSTALL_TIMEOUT_MS });

const PROJECT = path.resolve(import.meta.dirname, '../..');

const projectFile = (name: string) => readFile(path.join(PROJECT, name), 'utf8');

/** The files that `.dockerignore` sends to the engine. */
let context: string[];
let dockerfile: string;

beforeAll(async () => {
  dockerfile = (await projectFile('Dockerfile')).replaceAll(/\s*\\\n\s*/g, ' ');
  context = sentToEngine(await projectFile('.dockerignore'), await projectFiles());
});

describe('the Dockerfile', () => {
  it('sends no secret, data, test or demo to the engine', () => {
    const folders = new Set(context.map((file) => file.split('/')[0]));
    expect([...folders].toSorted()).toEqual(
      ['.npmrc', 'bin', 'migrations', 'package-lock.json', 'package.json', 'src'].toSorted(),
    );
    expect(context.filter((file) => file.startsWith('demo/'))).toEqual([]);
  });

  it('uses the Node version that the service needs, an unprivileged user and a volume', async () => {
    const { engines } = JSON.parse(await projectFile('package.json'));
    const version = /\d+/.exec(engines.node)?.[0];
    expect(valuesOf('FROM')).toEqual([
      `node:${version}-slim AS dependencies`,
      `node:${version}-slim`,
    ]);
    expect(valuesOf('USER')).toEqual(['node']);
    expect(valuesOf('VOLUME')).toEqual([imageEnv()['DATA_DIR']]);
    expect(imageEnv()['HOST']).toBe('0.0.0.0');
  });

  it('makes a service that is healthy, stops in order, and needs no development package', async () => {
    const app = await mkdtemp(path.join(tmpdir(), 'nutpost-image-'));
    onTestFinished(() => rm(app, { recursive: true, force: true }));
    for (const file of context.filter(isCopied)) {
      await cp(path.join(PROJECT, file), path.join(app, file));
    }
    const [install = ''] = valuesOf('RUN').filter((command) => command.startsWith('npm '));
    await runProgram('/bin/sh', ['-c', install], { cwd: app });
    const mint = await startMint();
    const env = {
      ...imageEnv(),
      PATH: process.env['PATH'] ?? '',
      DATA_DIR: path.join(app, 'data'),
      PORT: String(await findFreePort('127.0.0.1')),
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
    };
    const start = (command: string[]) => {
      const child = spawn(command[0] ?? '', command.slice(1), { cwd: app, env });
      onTestFinished(() => void child.kill('SIGKILL'));
      return child;
    };
    const healthcheck = async () => {
      const [code] = await once(start(listOf('HEALTHCHECK')), 'exit');
      return code;
    };
    expect(await healthcheck()).toBe(1);

    const service = start(listOf('CMD'));
    const output = text(service.stdout);
    const errors = text(service.stderr);
    await vi.waitFor(
      async () => {
        expect(service.exitCode, 'it ended').toBeNull();
        expect(await healthcheck()).toBe(0);
      },
      { timeout: INSTALL_TIMEOUT_MS, interval: 200 },
    );
    service.kill('SIGTERM');
    const [code] = await once(service, 'exit');
    expect({ code, errors: await errors }).toEqual({ code: 0, errors: '' });
    expect(await output).toContain('nutpost has stopped');
  });
});

describe('the compose file', () => {
  type Service = Record<string, unknown> & { environment: Record<string, string> };
  let services: Record<'nutpost' | 'postgres' | 'caddy', Service>;
  let volumes: Record<string, unknown>;
  let networks: { default: { enable_ipv6: boolean; ipam: { config: { subnet: string }[] } } };

  beforeAll(async () => {
    const file = await projectFile('docker-compose.yml');
    ({ services, volumes, networks } = parse(file, { merge: true }));
  });

  it('keeps data in declared volumes, and mounts files that exist', async () => {
    const mounts = Object.values(services).flatMap(({ volumes: each }) => each as string[]);
    const sources = mounts.map((mount) => mount.split(':')[0] ?? '');
    const files = sources.filter((source) => source.startsWith('./'));
    const named = sources.filter((source) => !source.startsWith('./'));
    expect(named.toSorted()).toEqual(Object.keys(volumes).toSorted());
    expect(mounts).toContain(`data:${imageEnv()['DATA_DIR']}`);
    expect(await projectFiles()).toEqual(expect.arrayContaining(files.map(path.normalize)));
  });

  it('gives nutpost no privileges and enough time to stop', () => {
    expect(services.nutpost).toMatchObject({
      init: true,
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      stop_grace_period: '15s',
    });
  });

  it('trusts the networks of its proxies only', () => {
    const subnets = networks.default.ipam.config.map(({ subnet }) => subnet);
    // IPv6 clients keep their addresses only if the containers have IPv6 too.
    expect(networks.default.enable_ipv6).toBe(true);
    expect(subnets.map((subnet) => isIPv6(subnet.split('/')[0] ?? ''))).toEqual([false, true]);
    expect(services.nutpost.environment['TRUST_PROXY']).toBe(`\${TRUST_PROXY:-${subnets}}`);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: compose files name settings like this.
    expect(services.nutpost['ports']).toEqual(['127.0.0.1:${PUBLISHED_PORT:-3000}:3000']);
  });

  it.each(['https://one.example', 'https://one.example, https://two.example'])(
    'lets Caddy serve %s',
    async (origins) => {
      expect(services.caddy.environment['PUBLIC_ORIGINS']).toBe(
        services.nutpost.environment['PUBLIC_ORIGINS'],
      );
      await installReverseProxies(['caddy']);
      const file = path.join(PROJECT, 'docker/Caddyfile');
      const { listen, routes } = (await adaptCaddyfile(file, { PUBLIC_ORIGINS: origins })).apps.http
        .servers.srv0;
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

/** The arguments of each instruction of this kind. */
function valuesOf(instruction: string): string[] {
  const lines = dockerfile.matchAll(new RegExp(`^${instruction} (.+)$`, 'gm'));
  return [...lines].map(([, value = '']) => value);
}

/** The last instruction of this kind, in the form without a shell, because a shell does not forward signals. */
function listOf(instruction: string): string[] {
  return JSON.parse(
    valuesOf(instruction)
      .at(-1)
      ?.replace(/^[^[]*/, '') ?? '',
  ) as string[];
}

function imageEnv(): Record<string, string> {
  const pairs = valuesOf('ENV').flatMap((value) => value.split(/\s+/));
  return Object.fromEntries(pairs.map((pair) => pair.split('=')));
}

/** Whether an instruction copies a file from the context. */
function isCopied(file: string): boolean {
  const sources = valuesOf('COPY')
    .filter((value) => !value.startsWith('--from'))
    .flatMap((value) => value.split(/\s+/).slice(0, -1));
  return sources.some((source) => file === source || file.startsWith(`${source}/`));
}

/** Files that git tracks or would add. */
async function projectFiles(): Promise<string[]> {
  const { stdout } = await runProgram(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'],
    { cwd: PROJECT, maxBuffer: 2 ** 24 },
  );
  return stdout.split('\n').filter((file) => file !== '');
}

/** The last matching line of `.dockerignore` counts. Ours has `*` and plain names. */
function sentToEngine(dockerignore: string, files: readonly string[]): string[] {
  const rules = dockerignore.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return files.filter((file) => {
    const last = rules.findLast((rule) => {
      const name = rule.replace(/^!/, '');
      return name === '*' || file === name || file.startsWith(`${name}/`);
    });
    return last?.startsWith('!') ?? true;
  });
}
