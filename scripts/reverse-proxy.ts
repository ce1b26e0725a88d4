import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { installFromDistribution, run } from './machine.ts';
import { ServerProcess } from './server-process.ts';

/** The reverse proxies with an example in docs/proxies/. Program and Debian package have the same name. */
export const REVERSE_PROXIES = ['nginx', 'haproxy', 'caddy'] as const;

export type ReverseProxyKind = (typeof REVERSE_PROXIES)[number];

/** The names in the examples. */
export const PROXIED_NAMES = ['one.example', 'two.example'] as const;

/** Where a proxy listens; with IPv6 if this machine has it. */
export const PROXY_ADDRESSES: readonly string[] = ['127.0.0.1', ...(hasIpv6() ? ['::1'] : [])];

const EXAMPLES = path.resolve(import.meta.dirname, '../docs/proxies');

/** Debian installs servers in a folder that is only on root's PATH. */
const PATH = `${process.env['PATH']}:/usr/sbin`;

/** A reverse proxy on {@link PROXY_ADDRESSES} that ends TLS for {@link PROXIED_NAMES}. */
export interface ReverseProxy {
  /** Of both names, in PEM, signed by itself. */
  certificate: string;
  /** Stops the proxy and deletes its folder. */
  stop(): Promise<void>;
}

/** Texts that an example contains once, each with its replacement. */
export type ConfigurationChanges = readonly (readonly [example: string, here: string])[];

/** How a test runs an example. */
interface Setup {
  /** The example's file in docs/proxies/. */
  example: string;
  /** The configuration before and after the example. */
  around: readonly [before: string, behind: string];
  changes: ConfigurationChanges;
  args: readonly string[];
}

interface Place {
  folder: string;
  /** Certificate and key in one file. */
  pem: string;
  /** The configuration, made from the example. */
  configuration: string;
  port: number;
  upstream: string;
}

/**
 * Installs missing proxies, and OpenSSL, which makes their certificates. It needs Debian and root;
 * elsewhere {@link startReverseProxy} reports what is missing.
 */
export async function installReverseProxies(
  kinds: readonly ReverseProxyKind[] = REVERSE_PROXIES,
): Promise<void> {
  const programs = [...kinds, 'openssl'];
  const found = await Promise.all(programs.map(isInstalled));
  const missing = programs.filter((_program, index) => !found[index]);
  if (missing.length > 0) {
    await installFromDistribution(...missing);
  }
}

/**
 * Starts a proxy with its example from docs/proxies/, in which only files and addresses are replaced.
 * It runs as the user of this process.
 *
 * @param options.port of each of {@link PROXY_ADDRESSES}
 * @param options.upstream the service, such as `127.0.0.1:3000`
 * @param options.changes further replacements
 * @throws if a program is missing or does not start; the message says what to do
 */
export async function startReverseProxy(
  kind: ReverseProxyKind,
  options: { port: number; upstream: string; changes: ConfigurationChanges },
): Promise<ReverseProxy> {
  await expectInstalled(kind, 'openssl');
  const folder = await mkdtemp(path.join(tmpdir(), `nutpost-${kind}-`));
  const place: Place = {
    folder,
    pem: path.join(folder, 'site.pem'),
    configuration: path.join(folder, 'configuration'),
    ...options,
  };
  const setup = SETUPS[kind](place);
  let proxy: ServerProcess | null = null;
  const stop = async () => {
    await proxy?.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const certificate = await makeCertificate(place);
    const changes = [...setup.changes, ...options.changes];
    const example = await readFile(path.join(EXAMPLES, setup.example), 'utf8');
    await writeFile(place.configuration, setup.around.join(changed(example, changes)));
    proxy = new ServerProcess(kind, kind, setup.args, { cwd: folder, env: { PATH, HOME: folder } });
    await proxy.firstAnswer(() => connectedToAll(options.port));
    return { certificate, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A part of Caddy's JSON configuration (`apps.http`). */
export interface CaddyConfiguration {
  apps: {
    http: {
      servers: { srv0: { listen: string[]; routes: { match: { host: string[] }[] }[] } };
    };
  };
}

/**
 * Returns Caddy's configuration for a Caddyfile, without running it.
 *
 * @param env environment variables that the file uses
 * @throws if there is no Caddy, or the file is wrong; the message says what to do
 */
export async function adaptCaddyfile(
  file: string,
  env: Record<string, string>,
): Promise<CaddyConfiguration> {
  await expectInstalled('caddy');
  const args = ['adapt', '--adapter', 'caddyfile', '--config', file];
  const { stdout } = await run('caddy', args, { env: { PATH, ...env } });
  return JSON.parse(stdout) as CaddyConfiguration;
}

const SETUPS: Record<ReverseProxyKind, (place: Place) => Setup> = {
  nginx: ({ folder, pem, configuration, port, upstream }) => ({
    example: 'nginx.conf',
    around: [
      // If root starts it, it would run its workers as a user that cannot read the folder.
      `user root; daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
       fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi;
       scgi_temp_path ${folder}/scgi;\n`,
      '}\n',
    ],
    changes: [
      ['listen 443', `listen 127.0.0.1:${port}`],
      ['listen [::]:443 ssl http2;', hasIpv6() ? `listen [::1]:${port} ssl http2;` : ''],
      ['server 127.0.0.1:3000', `server ${upstream}`],
      ['/etc/ssl/nutpost/fullchain.pem', pem],
      ['/etc/ssl/nutpost/privkey.pem', pem],
    ],
    args: ['-e', 'stderr', '-p', folder, '-c', configuration],
  }),
  haproxy: ({ pem, configuration, port, upstream }) => ({
    example: 'haproxy.cfg',
    around: ['', ''],
    changes: [
      ['bind :443,:::443 v', `bind ${PROXY_ADDRESSES.map((host) => `${host}:${port}`)} v`],
      ['server nutpost 127.0.0.1:3000', `server nutpost ${upstream}`],
      ['/etc/haproxy/nutpost.pem', pem],
    ],
    args: ['-db', '-f', configuration],
  }),
  caddy: ({ pem, configuration, port, upstream }) => ({
    example: 'Caddyfile',
    around: ['', ''],
    changes: [
      // By default it listens on more ports, and requests certificates.
      [
        '\tservers {',
        `\tadmin off\n\tauto_https off\n\tdefault_bind ${PROXY_ADDRESSES.join(' ')}\n\tservers {`,
      ],
      [
        'one.example, two.example {',
        `https://one.example:${port}, https://two.example:${port} {\n\ttls ${pem} ${pem}`,
      ],
      ['reverse_proxy 127.0.0.1:3000', `reverse_proxy ${upstream}`],
    ],
    args: ['run', '--adapter', 'caddyfile', '--config', configuration],
  }),
};

/** @throws unless the example contains each text exactly once */
function changed(example: string, changes: ConfigurationChanges): string {
  return changes.reduce((text, [from, to]) => {
    const parts = text.split(from);
    if (parts.length !== 2) {
      throw new Error(`the example must contain "${from}" once`);
    }
    return parts.join(to);
  }, example);
}

/** Returns the certificate. The file `pem` has it with its key. */
async function makeCertificate({ folder, pem }: Place): Promise<string> {
  const key = path.join(folder, 'key.pem');
  const names = PROXIED_NAMES.map((name) => `DNS:${name}`).join(',');
  const { stdout } = await run('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-keyout', key, '-subj', '/CN=nutpost test', '-addext', `subjectAltName=${names}`],
    ...['-days', '2'],
  ]);
  await writeFile(pem, stdout + (await readFile(key, 'utf8')), { mode: 0o600 });
  return stdout;
}

async function expectInstalled(...programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    if (!(await isInstalled(program))) {
      throw new Error(`There is no ${program} (on Debian: apt-get install ${program}).`);
    }
  }
}

function isInstalled(program: string): Promise<boolean> {
  return run('which', [program], { env: { PATH } }).then(
    () => true,
    () => false,
  );
}

/** Returns null if the proxy does not listen on all addresses yet. */
async function connectedToAll(port: number): Promise<true | null> {
  const connected = await Promise.all(PROXY_ADDRESSES.map((host) => isConnected(host, port)));
  return connected.every(Boolean) ? true : null;
}

function isConnected(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

function hasIpv6(): boolean {
  const addresses = Object.values(networkInterfaces()).flat();
  return addresses.some((own) => own?.address === '::1');
}
