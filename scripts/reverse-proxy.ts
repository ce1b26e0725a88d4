import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { installDebianPackages, runProgram } from './debian-packages.ts';
import { ServerProcess } from './server-process.ts';

/** Reverse proxies with an example in docs/proxies/. Programs and Debian packages have these names. */
export const REVERSE_PROXIES = ['nginx', 'haproxy', 'caddy'] as const;

export type ReverseProxyKind = (typeof REVERSE_PROXIES)[number];

/** The hostnames in the examples. */
export const PROXIED_HOSTNAMES = ['one.example', 'two.example'] as const;

/** Addresses on which a proxy listens, including IPv6 if available. */
export const PROXY_ADDRESSES: readonly string[] = ['127.0.0.1', ...(hasIpv6() ? ['::1'] : [])];

const EXAMPLES_FOLDER = path.resolve(import.meta.dirname, '../docs/proxies');

/** Debian installs servers in a folder that is only on root's PATH. */
const SEARCH_PATH = `${process.env['PATH']}:/usr/sbin`;

/** A reverse proxy on {@link PROXY_ADDRESSES} that terminates TLS for {@link PROXIED_HOSTNAMES}. */
export interface ReverseProxy {
  /** Self-signed certificate for both hostnames, in PEM. */
  certificate: string;
  /** Stops the proxy and deletes its folder. */
  stop(): Promise<void>;
}

/** Texts that an example contains exactly once, each with its replacement. */
export type ConfigReplacements = readonly (readonly [text: string, replacement: string])[];

interface ProxySetup {
  /** File in docs/proxies/. */
  exampleFile: string;
  /** Configuration to insert before and after the example. */
  wrapper: readonly [before: string, after: string];
  replacements: ConfigReplacements;
  args: readonly string[];
}

interface ProxyContext {
  folder: string;
  /** Certificate and key in one file. */
  pemFile: string;
  /** Configuration generated from the example. */
  configFile: string;
  port: number;
  upstream: string;
}

/**
 * Installs missing proxies, and OpenSSL for their certificates. Works only on Debian as root. Otherwise,
 * {@link startReverseProxy} throws if a program is missing.
 */
export async function installReverseProxies(
  kinds: readonly ReverseProxyKind[] = REVERSE_PROXIES,
): Promise<void> {
  const programs = [...kinds, 'openssl'];
  const found = await Promise.all(programs.map(isInstalled));
  const missing = programs.filter((_program, index) => !found[index]);
  if (missing.length > 0) {
    await installDebianPackages(...missing);
  }
}

/**
 * Starts a proxy with its example from docs/proxies/, after replacing only file names and addresses. It runs
 * as the user of this process.
 *
 * @param options.port port on each of {@link PROXY_ADDRESSES}
 * @param options.upstream address of the service, such as `127.0.0.1:3000`
 * @param options.replacements additional replacements
 * @throws Error if a program is missing or does not start
 */
export async function startReverseProxy(
  kind: ReverseProxyKind,
  options: { port: number; upstream: string; replacements: ConfigReplacements },
): Promise<ReverseProxy> {
  await assertInstalled(kind, 'openssl');
  const folder = await mkdtemp(path.join(tmpdir(), `nutpost-${kind}-`));
  const context: ProxyContext = {
    folder,
    pemFile: path.join(folder, 'site.pem'),
    configFile: path.join(folder, 'configuration'),
    ...options,
  };
  const setup = PROXY_SETUPS[kind](context);
  let proxy: ServerProcess | null = null;
  const stop = async () => {
    await proxy?.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const certificate = await makeCertificate(context);
    const replacements = [...setup.replacements, ...options.replacements];
    const example = await readFile(path.join(EXAMPLES_FOLDER, setup.exampleFile), 'utf8');
    await writeFile(
      context.configFile,
      setup.wrapper.join(applyReplacements(example, replacements)),
    );
    proxy = new ServerProcess(kind, kind, setup.args, {
      cwd: folder,
      env: { PATH: SEARCH_PATH, HOME: folder },
    });
    await proxy.waitUntilReady(() => checkListening(options.port));
    return { certificate, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The part of Caddy's JSON configuration that tests read. */
export interface CaddyConfig {
  apps: {
    http: {
      servers: { srv0: { listen: string[]; routes: { match: { host: string[] }[] }[] } };
    };
  };
}

/**
 * Converts a Caddyfile to Caddy's JSON configuration.
 *
 * @param env environment variables that the file uses
 * @throws Error if Caddy is missing or the file is invalid
 */
export async function adaptCaddyfile(
  file: string,
  env: Record<string, string>,
): Promise<CaddyConfig> {
  await assertInstalled('caddy');
  const args = ['adapt', '--adapter', 'caddyfile', '--config', file];
  const { stdout } = await runProgram('caddy', args, { env: { PATH: SEARCH_PATH, ...env } });
  return JSON.parse(stdout) as CaddyConfig;
}

const PROXY_SETUPS: Record<ReverseProxyKind, (context: ProxyContext) => ProxySetup> = {
  nginx: ({ folder, pemFile, configFile, port, upstream }) => ({
    exampleFile: 'nginx.conf',
    wrapper: [
      // Without `user root`, nginx started by root runs its workers as a user that cannot read the folder.
      `user root; daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log off;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
       fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi;
       scgi_temp_path ${folder}/scgi;\n`,
      '}\n',
    ],
    replacements: [
      ['listen 443', `listen 127.0.0.1:${port}`],
      ['listen [::]:443 ssl http2;', hasIpv6() ? `listen [::1]:${port} ssl http2;` : ''],
      ['server 127.0.0.1:3000', `server ${upstream}`],
      ['/etc/ssl/nutpost/fullchain.pem', pemFile],
      ['/etc/ssl/nutpost/privkey.pem', pemFile],
    ],
    args: ['-e', 'stderr', '-p', folder, '-c', configFile],
  }),
  haproxy: ({ pemFile, configFile, port, upstream }) => ({
    exampleFile: 'haproxy.cfg',
    wrapper: ['', ''],
    replacements: [
      ['bind :443,:::443 v', `bind ${PROXY_ADDRESSES.map((host) => `${host}:${port}`)} v`],
      ['server nutpost 127.0.0.1:3000', `server nutpost ${upstream}`],
      ['/etc/haproxy/nutpost.pem', pemFile],
    ],
    args: ['-db', '-f', configFile],
  }),
  caddy: ({ pemFile, configFile, port, upstream }) => ({
    exampleFile: 'Caddyfile',
    wrapper: ['', ''],
    replacements: [
      // By default, Caddy listens on more ports and requests certificates.
      [
        '\tservers {',
        `\tadmin off\n\tauto_https off\n\tdefault_bind ${PROXY_ADDRESSES.join(' ')}\n\tservers {`,
      ],
      [
        'one.example, two.example {',
        `https://one.example:${port}, https://two.example:${port} {\n\ttls ${pemFile} ${pemFile}`,
      ],
      ['reverse_proxy 127.0.0.1:3000', `reverse_proxy ${upstream}`],
    ],
    args: ['run', '--adapter', 'caddyfile', '--config', configFile],
  }),
};

/** @throws Error unless the example contains each text exactly once */
function applyReplacements(example: string, replacements: ConfigReplacements): string {
  return replacements.reduce((text, [from, to]) => {
    const parts = text.split(from);
    if (parts.length !== 2) {
      throw new Error(`the example must contain "${from}" exactly once`);
    }
    return parts.join(to);
  }, example);
}

/** Creates a certificate, writes it with its key to `pemFile`, and returns it. */
async function makeCertificate({ folder, pemFile }: ProxyContext): Promise<string> {
  const key = path.join(folder, 'key.pem');
  const names = PROXIED_HOSTNAMES.map((name) => `DNS:${name}`).join(',');
  const { stdout } = await runProgram('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-keyout', key, '-subj', '/CN=nutpost test', '-addext', `subjectAltName=${names}`],
    ...['-days', '2'],
  ]);
  await writeFile(pemFile, stdout + (await readFile(key, 'utf8')), { mode: 0o600 });
  return stdout;
}

async function assertInstalled(...programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    if (!(await isInstalled(program))) {
      throw new Error(`${program} is not installed (on Debian: apt-get install ${program}).`);
    }
  }
}

function isInstalled(program: string): Promise<boolean> {
  return runProgram('which', [program], { env: { PATH: SEARCH_PATH } }).then(
    () => true,
    () => false,
  );
}

/** Returns null if the proxy does not listen on all addresses yet. */
async function checkListening(port: number): Promise<true | null> {
  const connected = await Promise.all(PROXY_ADDRESSES.map((host) => canConnect(host, port)));
  return connected.every(Boolean) ? true : null;
}

function canConnect(host: string, port: number): Promise<boolean> {
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
  return addresses.some((each) => each?.address === '::1');
}
