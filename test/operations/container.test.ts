import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { isIPv6 } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { parse } from 'yaml';
import { exists, run } from '../../scripts/machine.ts';
import {
  adaptCaddyfile,
  type CaddyConfiguration,
  installReverseProxies,
} from '../../scripts/reverse-proxy.ts';
import { freePort } from '../../scripts/server-process.ts';
import { type Config, readConfig } from '../../src/config.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { readDockerfile, type Stage } from './container/dockerfile.ts';
import { type ContainedProcess, canChangeRoot, ScratchRoot } from './container/scratch-root.ts';

/**
 * What the Dockerfile and the compose file say, tried without a container engine: each COPY and RUN is
 * done by hand, and what comes of them started as an engine would.
 */

/** Packages are installed and the modules compiled. */
const SOME_MINUTES_MS = 300_000;
vi.setConfig({ testTimeout: SOME_MINUTES_MS, hookTimeout: SOME_MINUTES_MS });

const PROJECT = path.resolve(import.meta.dirname, '../..');

let stages: Stage[];
/** What an engine would be sent: what `.dockerignore` leaves of the project. */
let context: string[];
let dependencies: Stage;
let image: Stage;

beforeAll(async () => {
  stages = readDockerfile(await readFile(path.join(PROJECT, 'Dockerfile'), 'utf8'));
  [dependencies, image] = stages as [Stage, Stage];
  context = leftBy(
    await readFile(path.join(PROJECT, '.dockerignore'), 'utf8'),
    await projectFiles(),
  );
});

describe('the Dockerfile', () => {
  it('copies what is in the project, and what .dockerignore lets through', () => {
    const sources = stages.flatMap(({ steps }) =>
      steps.flatMap((step) => (step.kind === 'copy' && step.from === null ? step.sources : [])),
    );
    expect(sources).toEqual(expect.arrayContaining(['package.json', 'package-lock.json', 'src']));
    for (const source of sources) {
      const found = context.filter((file) => file === source || file.startsWith(`${source}/`));
      expect(found, source).not.toEqual([]);
    }
  });

  it('sends no secret, no data, no test and no demo to the engine', () => {
    const folders = new Set(context.map((file) => file.split('/')[0]));
    expect([...folders].toSorted()).toEqual(
      ['.npmrc', 'bin', 'migrations', 'package-lock.json', 'package.json', 'src'].toSorted(),
    );
    expect(context.filter((file) => file.startsWith('src/demo/'))).toEqual([]);
    expect(context).toContain('src/cli.ts');
  });

  it('is built on the official image of a Node that the service runs on', async () => {
    const { engines } = await manifest();
    const least = /\d+/.exec(engines.node)?.[0];
    expect(stages.map(({ base }) => base)).toEqual([`node:${least}-slim`, `node:${least}-slim`]);
  });

  it('ends with a service that is no root’s, hears signals itself and keeps data in a volume', () => {
    expect(image.user).toBe('node');
    expect(image.command).toEqual(['node', 'bin/nutpost.js', 'serve']);
    expect(image.healthcheck).toEqual(['node', 'bin/healthcheck.js']);
    expect(image.volumes).toEqual([image.env['DATA_DIR']]);
    expect(image.ports).toEqual(['3000']);
    expect(image.env['HOST']).toBe('0.0.0.0');
  });
});

describe.skipIf(!canChangeRoot)('what the Dockerfile makes', () => {
  let workshop: string;
  let root: ScratchRoot;

  beforeAll(async () => {
    workshop = await mkdtemp(path.join(tmpdir(), 'nutpost-stage-'));
    root = await ScratchRoot.make();
    await makeDependencies();
    await makeImage();
  });

  afterAll(async () => {
    await root.remove();
    await rm(workshop, { recursive: true, force: true });
  });

  it('has every package that the service needs, and none of development', async () => {
    const { packages } = JSON.parse(
      await readFile(path.join(PROJECT, 'package-lock.json'), 'utf8'),
    ) as { packages: Record<string, { dev?: boolean; optional?: boolean }> };
    const entries = Object.entries(packages).filter(([folder]) => folder !== '');
    const isThere = (folder: string) => exists(root.at(path.join(image.folder, folder)));
    for (const [folder, { dev = false, optional = false }] of entries) {
      if (dev || !optional) {
        expect(await isThere(folder), folder).toBe(!dev);
      }
    }
    expect(entries.filter(([, { dev }]) => dev === true).length).toBeGreaterThan(20);
  });

  it('says of the demo where it is to be had', async () => {
    const { code, output } = await end(start(['node', 'bin/nutpost.js', 'demo'], image.env));
    expect(code, output).toBe(1);
    expect(output).toMatch(/^The demo needs a clone of the repository .+\n$/);
  });

  it('has its modules compiled, for the user who runs them', async () => {
    const [compiled = ''] = await readdir(root.at(`${image.folder}/node_modules/.cache/nutpost`));
    expect(compiled).toMatch(/-1000$/);
  });

  it('serves as a user who can write nowhere but in DATA_DIR, is healthy, and stops in order', async () => {
    const mint = await TestMint.start();
    onTestFinished(() => mint.close());
    const dataDir = image.env['DATA_DIR'] ?? '';
    await root.makeReadOnly(image.folder);
    const places = ['/', image.folder, `${image.folder}/node_modules/.cache`, dataDir];
    const writable = `for each in ${places.join(' ')}; do [ -w $each ] && echo $each; done`;
    const { output } = await end(start(['/bin/sh', '-c', writable], image.env));
    expect(output).toBe(`${dataDir}\n`);
    const port = await freePort('127.0.0.1');
    const settings = {
      ...image.env,
      PORT: String(port),
      DEFAULT_MINT_URL: mint.url,
      ALLOW_PRIVATE_NETWORKS: 'true',
    };
    expect(await healthcheck(settings)).toMatchObject({ code: 1 });

    const service = start(image.command, settings);
    const said = text(service.stdout);
    const complaints = text(service.stderr);
    await vi.waitFor(
      async () => {
        expect(service.exitCode, 'it ended').toBeNull();
        expect(await healthcheck(settings)).toMatchObject({ code: 0 });
      },
      { timeout: SOME_MINUTES_MS, interval: 200 },
    );
    const info = await fetch(`http://127.0.0.1:${port}/api/v2/info`);
    expect(info.status).toBe(200);
    expect(await readdir(root.at(dataDir))).toContain('postgres');

    service.kill('SIGTERM');
    const [code] = await once(service, 'exit');
    expect({ code, complaints: await complaints }).toEqual({ code: 0, complaints: '' });
    expect(await said).toContain('nutpost has stopped');
    expect(await healthcheck(settings)).toMatchObject({ code: 1 });
  });

  /** The stage that installs packages needs npm and its network: it is done in a folder of its own. */
  async function makeDependencies(): Promise<void> {
    for (const step of dependencies.steps) {
      if (step.kind === 'copy') {
        await copyFromContext(step.sources, workshop);
      } else {
        expect(step.command, 'it stays in its folder').not.toMatch(/\s\//);
        await run('/bin/sh', ['-c', step.command], { cwd: workshop });
      }
    }
  }

  async function makeImage(): Promise<void> {
    await mkdir(root.at(image.folder));
    for (const step of image.steps) {
      if (step.kind === 'run') {
        const { code, output } = await end(start(['/bin/sh', '-c', step.command], image.env, step));
        expect(code, output).toBe(0);
      } else if (step.from === null) {
        await copyFromContext(step.sources, root.at(image.folder));
      } else {
        expect(step.from).toBe(dependencies.name);
        const [source = ''] = step.sources;
        const from = path.join(workshop, path.relative(dependencies.folder, source));
        await cp(from, root.at(path.join(image.folder, step.target)), { recursive: true });
      }
    }
  }

  function start(
    command: readonly string[],
    env: Record<string, string>,
    { user, folder }: { user: string; folder: string } = image,
  ): ContainedProcess {
    return root.start(command, { user, folder, env });
  }

  async function healthcheck(env: Record<string, string>) {
    return end(start(image.healthcheck, env));
  }
});

describe('the compose file', () => {
  type Service = Record<string, unknown> & { environment: Record<string, string> };
  let services: Record<'nutpost' | 'postgres' | 'caddy', Service>;
  let volumes: Record<string, unknown>;
  let networks: { default: { enable_ipv6: boolean; ipam: { config: { subnet: string }[] } } };

  beforeAll(async () => {
    const file = await readFile(path.join(PROJECT, 'docker-compose.yml'), 'utf8');
    ({ services, volumes, networks } = parse(file, { merge: true }));
  });

  it('runs nutpost with PostgreSQL, and with a proxy only where one is asked for', () => {
    expect(Object.keys(services).toSorted()).toEqual(['caddy', 'nutpost', 'postgres']);
    const needsProfile = Object.values(services).filter((service) => 'profiles' in service);
    expect(needsProfile).toEqual([services.caddy]);
    expect(services.nutpost.environment['DATABASE_URL']).toContain('@postgres:5432/nutpost');
    expect(services.nutpost['depends_on']).toEqual({ postgres: { condition: 'service_healthy' } });
    expect(services.postgres['healthcheck']).toMatchObject({
      test: ['CMD', 'pg_isready', '--host=127.0.0.1', '--username=nutpost', '--dbname=nutpost'],
    });
  });

  it('brings each of them back, and lets no log fill the disk', () => {
    for (const [name, service] of Object.entries(services)) {
      expect(service, name).toMatchObject({
        restart: 'unless-stopped',
        logging: { options: { 'max-size': '20m', 'max-file': '5' } },
      });
    }
  });

  it('keeps what must not be lost in volumes that it declares', async () => {
    const mounts = Object.values(services).flatMap(({ volumes: each }) => each as string[]);
    const [files, named] = [
      mounts.filter((mount) => mount.startsWith('./')),
      mounts.filter((mount) => !mount.startsWith('./')),
    ];
    expect(named.map((mount) => mount.split(':')[0]).toSorted()).toEqual(
      Object.keys(volumes).toSorted(),
    );
    expect(named).toContain(`data:${image.env['DATA_DIR']}`);
    for (const [file = ''] of files.map((mount) => mount.split(':'))) {
      expect(await projectFiles()).toContain(path.normalize(file));
    }
  });

  it('lets nutpost write nowhere else, gives it no privilege, and time to stop', () => {
    expect(services.nutpost).toMatchObject({
      init: true,
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
      stop_grace_period: '15s',
    });
  });

  it('trusts the networks that its proxies come from, and nothing else reaches it', () => {
    const subnets = networks.default.ipam.config.map(({ subnet }) => subnet);
    // Those who come by IPv6 keep their addresses only where the containers have such too.
    expect(networks.default.enable_ipv6).toBe(true);
    expect(subnets.map((subnet) => isIPv6(subnet.split('/')[0] ?? ''))).toEqual([false, true]);
    expect(services.nutpost.environment['TRUST_PROXY']).toBe(`\${TRUST_PROXY:-${subnets}}`);
    expect(config({ TRUST_PROXY: subnets.join() }).trustProxy).toEqual(subnets);
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is how compose files name settings.
    expect(services.nutpost['ports']).toEqual(['127.0.0.1:${PUBLISHED_PORT:-3000}:3000']);
    expect(services.postgres).not.toHaveProperty('ports');
  });

  it('has Caddy serve the origins that nutpost has, one or several', async () => {
    const settings = [services.nutpost, services.caddy].map(
      ({ environment }) => environment['PUBLIC_ORIGINS'],
    );
    expect(new Set(settings).size).toBe(1);
    await installReverseProxies(['caddy']);
    const file = path.join(PROJECT, 'docker/Caddyfile');
    for (const origins of ['https://one.example', 'https://one.example, https://two.example']) {
      const { publicOrigins } = config({ PUBLIC_ORIGINS: origins });
      const adapted = await adaptCaddyfile(file, { PUBLIC_ORIGINS: origins });
      expect(namesServed(adapted)).toEqual(publicOrigins.map((origin) => new URL(origin).host));
    }
  });

  it('needs no engine that is newer than those that distributions have', async () => {
    // Docker Engine 25.
    const dockerfile = await readFile(path.join(PROJECT, 'Dockerfile'), 'utf8');
    expect(dockerfile).not.toContain('--start-interval');
    expect(JSON.stringify(services)).not.toContain('start_interval');
  });

  it('stops with a sentence where a secret or the domain is missing', () => {
    const written = JSON.stringify(services);
    for (const name of ['DOMAIN', 'POSTGRES_PASSWORD', 'JWT_SECRET']) {
      expect(written).toMatch(new RegExp(`\\$\\{${name}:\\?write .+ into \\.env`));
    }
  });
});

/** What the service makes of settings. */
function config(settings: Record<string, string>): Config {
  return readConfig({ DEFAULT_MINT_URL: 'https://mint.example', ...settings });
}

/** The names that Caddy asks certificates for, from its own configuration. */
function namesServed(adapted: CaddyConfiguration): string[] {
  const { listen, routes } = adapted.apps.http.servers.srv0;
  expect(listen).toEqual([':443']);
  return routes.flatMap(({ match }) => match.flatMap(({ host }) => host));
}

/** All files that are in git, or would be with the next commit. */
async function projectFiles(): Promise<string[]> {
  const { stdout } = await run(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', '--deduplicate'],
    { cwd: PROJECT, maxBuffer: 2 ** 24 },
  );
  return stdout.split('\n').filter((file) => file !== '');
}

/**
 * The files that a `.dockerignore` lets through: of all lines that fit a file, the last one counts. Ours
 * has `*` and plain names.
 */
function leftBy(dockerignore: string, files: readonly string[]): string[] {
  const rules = dockerignore.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const fits = (file: string, name: string) =>
    name === '*' || file === name || file.startsWith(`${name}/`);
  return files.filter((file) => {
    const last = rules.findLast((rule) => fits(file, rule.replace(/^!/, '')));
    return last?.startsWith('!') ?? true;
  });
}

/** Copies as `COPY` does: a file by its name, of a folder what is in it. */
async function copyFromContext(sources: readonly string[], folder: string): Promise<void> {
  for (const file of context) {
    if (sources.some((source) => file === source || file.startsWith(`${source}/`))) {
      await cp(path.join(PROJECT, file), path.join(folder, file));
    }
  }
}

async function manifest(): Promise<{ engines: { node: string } }> {
  return JSON.parse(await readFile(path.join(PROJECT, 'package.json'), 'utf8'));
}

async function end(child: ContainedProcess): Promise<{ code: number | null; output: string }> {
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { code, output: stdout + stderr };
}
