import { readFile } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../../scripts/debian-packages.ts';
import { adaptCaddyfile, installReverseProxies } from '../../scripts/reverse-proxy.ts';
import { readConfig } from '../../src/config.ts';

/** Tests the Dockerfile and the compose file without a container engine. test/image/ builds and runs a real image. */

/** The tests install Debian packages. */
const INSTALL_TIMEOUT_MS = 300_000;
vi.setConfig({ testTimeout: INSTALL_TIMEOUT_MS, hookTimeout: INSTALL_TIMEOUT_MS });

const PROJECT_DIR = path.resolve(import.meta.dirname, '../..');

const readProjectFile = (name: string) => readFile(path.join(PROJECT_DIR, name), 'utf8');

let dockerfile: string;

beforeAll(async () => {
  dockerfile = (await readProjectFile('Dockerfile')).replaceAll(/\s*\\\n\s*/g, ' ');
});

it('the Dockerfile uses the required Node version, an unprivileged user, and a volume for DATA_DIR', async () => {
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
    expect(services.nutpost).toMatchObject({ read_only: true, stop_grace_period: '15s' });
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

function findInstructions(instruction: string): string[] {
  const lines = dockerfile.matchAll(new RegExp(`^${instruction} (.+)$`, 'gm'));
  return [...lines].map(([, value = '']) => value);
}

function readImageEnv(): Record<string, string> {
  const pairs = findInstructions('ENV').flatMap((value) => value.split(/\s+/));
  return Object.fromEntries(pairs.map((pair) => pair.split('=')));
}

async function listProjectFiles(): Promise<string[]> {
  const { stdout } = await runProgram(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'],
    { cwd: PROJECT_DIR, maxBuffer: 2 ** 24 },
  );
  return stdout.split('\n').filter((file) => file !== '');
}
