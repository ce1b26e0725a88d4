import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { installDebianPackages, runProgram } from './debian-packages.ts';
import { findFreePort, ServerProcess } from './server-process.ts';

/**
 * Reverse proxies with an example configuration in docs/proxies/. Their programs and Debian packages have the same
 * names.
 */
export const REVERSE_PROXIES = ['nginx', 'haproxy', 'caddy'] as const;

export type ReverseProxyKind = (typeof REVERSE_PROXIES)[number];

/** The hostnames in the example configurations. */
export const PROXIED_HOSTNAMES = ['one.example', 'two.example'] as const;

/** Addresses on which a proxy listens. */
export const PROXY_ADDRESSES: readonly string[] = ['127.0.0.1', ...(hasIpv6() ? ['::1'] : [])];

const EXAMPLES_FOLDER = path.resolve(import.meta.dirname, '../docs/proxies');

/** Debian installs servers in /usr/sbin, which is only on root's PATH. */
const PROGRAM_PATH = `${process.env['PATH']}:/usr/sbin`;

/** A reverse proxy on {@link PROXY_ADDRESSES} that terminates TLS for {@link PROXIED_HOSTNAMES}. */
export interface ReverseProxy {
  /** Self-signed certificate for both hostnames, in PEM. */
  certificate: string;
  /** Redirects http: requests. Caddy's example does not configure the redirect, which Caddy adds by itself. */
  httpPort: number;
  /** What the proxy has logged. */
  readLog: () => Promise<string>;
  /** Stops the proxy and deletes its folder. */
  stop(): Promise<void>;
}

/** Texts in an example configuration, each with its replacement. The example must contain each text once. */
export type ConfigReplacements = readonly (readonly [text: string, replacement: string])[];

/** How to run one kind of proxy with its example configuration. */
interface ProxySetup {
  /** Name of the example in docs/proxies/. */
  exampleFile: string;
  /** Texts to insert before and after the example. */
  wrapper: readonly [before: string, after: string];
  replacements: ConfigReplacements;
  /** Command-line arguments of the proxy. */
  args: readonly string[];
}

interface ProxyContext {
  /** Temporary folder of the proxy. */
  folder: string;
  /** Contains the certificate and its key. */
  pemFile: string;
  /** Contains the example after the replacements. */
  configFile: string;
  /** The proxy listens on this port of each of {@link PROXY_ADDRESSES}. */
  port: number;
  httpPort: number;
  /** Addresses of the processes of the service, such as `127.0.0.1:3000`. */
  upstreams: readonly string[];
}

/**
 * Installs missing proxies and OpenSSL, which creates their certificates. Does nothing unless this process runs as
 * root on Debian.
 */
export async function installReverseProxies(
  kinds: readonly ReverseProxyKind[] = REVERSE_PROXIES,
): Promise<void> {
  const programs = [...kinds, 'openssl'];
  const areInstalled = await Promise.all(programs.map(isInstalled));
  const missing = programs.filter((_program, index) => !areInstalled[index]);
  if (missing.length > 0) {
    await installDebianPackages(...missing);
  }
}

/**
 * Starts a proxy with its example configuration from docs/proxies/. Changes the example only as far as necessary to
 * run it in a test.
 *
 * @param options.port the proxy listens on this port of each of {@link PROXY_ADDRESSES}
 * @param options.upstreams addresses of the processes of the service, such as `127.0.0.1:3000`
 * @param options.replacements the test's own changes of the example
 * @throws Error if the proxy or OpenSSL is missing, or if the proxy does not start
 */
export async function startReverseProxy(
  kind: ReverseProxyKind,
  options: { port: number; upstreams: readonly string[]; replacements: ConfigReplacements },
): Promise<ReverseProxy> {
  await assertInstalled(kind, 'openssl');
  const folder = await mkdtemp(path.join(tmpdir(), `nutpost-${kind}-`));
  const context: ProxyContext = {
    folder,
    pemFile: path.join(folder, 'site.pem'),
    configFile: path.join(folder, 'configuration'),
    httpPort: await findFreePort('127.0.0.1'),
    ...options,
  };
  const setup = PROXY_SETUPS[kind](context);
  let proxy: ServerProcess | null = null;
  const stop = async () => {
    await proxy?.stop('SIGTERM');
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const certificate = await createCertificate(context);
    const replacements = [...setup.replacements, ...options.replacements];
    const example = await readProxyExample(setup.exampleFile, replacements);
    await writeFile(context.configFile, setup.wrapper.join(example));
    proxy = new ServerProcess(kind, kind, setup.args, {
      cwd: folder,
      env: { PATH: PROGRAM_PATH, HOME: folder },
    });
    await proxy.waitUntilReady(() => checkListening(options.port));
    const { httpPort } = context;
    const readLog = async () => {
      const accessLog = await readFile(path.join(folder, 'access.log'), 'utf8').catch(() => '');
      return `${proxy?.output ?? ''}${accessLog}`;
    };
    return { certificate, httpPort, readLog, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The parts of Caddy's JSON configuration that tests check. */
export interface CaddyConfig {
  apps: {
    http: {
      servers: { srv0: { listen: string[]; routes: { match: { host: string[] }[] }[] } };
    };
  };
}

/**
 * Converts a Caddyfile to Caddy's JSON configuration with `caddy adapt`.
 *
 * @param env the environment variables that the Caddyfile contains
 * @throws Error if Caddy is missing or the file is invalid
 */
export async function adaptCaddyfile(
  file: string,
  env: Record<string, string>,
): Promise<CaddyConfig> {
  await assertInstalled('caddy');
  const args = ['adapt', '--adapter', 'caddyfile', '--config', file];
  const { stdout } = await runProgram('caddy', args, { env: { PATH: PROGRAM_PATH, ...env } });
  return JSON.parse(stdout) as CaddyConfig;
}

const PROXY_SETUPS: Record<ReverseProxyKind, (context: ProxyContext) => ProxySetup> = {
  nginx: ({ folder, pemFile, configFile, port, httpPort, upstreams }) => ({
    exampleFile: 'nginx.conf',
    wrapper: [
      // By default, nginx that root starts runs its workers as another user, who cannot read the folder.
      // It logs requests by default, as on Debian.
      `user root; daemon off; pid ${folder}/pid; error_log stderr; events {} http { access_log ${folder}/access.log;
       client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
       fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi;
       scgi_temp_path ${folder}/scgi;\n`,
      '}\n',
    ],
    replacements: [
      ['listen 80;', `listen 127.0.0.1:${httpPort};`],
      ['listen [::]:80;', ''],
      ['error_log /var/log/nginx/error.log emerg;', 'error_log stderr emerg;'],
      ['listen 443', `listen 127.0.0.1:${port}`],
      ['listen [::]:443 ssl http2;', hasIpv6() ? `listen [::1]:${port} ssl http2;` : ''],
      ['server 127.0.0.1:3000;', upstreams.map((upstream) => `server ${upstream};`).join(' ')],
      ['/etc/ssl/nutpost/fullchain.pem', pemFile],
      ['/etc/ssl/nutpost/privkey.pem', pemFile],
    ],
    args: ['-e', 'stderr', '-p', folder, '-c', configFile],
  }),
  haproxy: ({ pemFile, configFile, port, httpPort, upstreams }) => ({
    exampleFile: 'haproxy.cfg',
    wrapper: ['', ''],
    replacements: [
      ['bind :80,:::80 v6only', `bind 127.0.0.1:${httpPort}`],
      // As if the operator had added logs.
      ['    mode http\n', '    mode http\n    log stdout format raw local0\n    option httplog\n'],
      ['bind :443,:::443 v', `bind ${PROXY_ADDRESSES.map((host) => `${host}:${port}`)} v`],
      [
        'server nutpost1 127.0.0.1:3000',
        upstreams.map((upstream, index) => `server nutpost${index + 1} ${upstream}`).join('\n    '),
      ],
      ['/etc/haproxy/nutpost.pem', pemFile],
    ],
    args: ['-db', '-f', configFile],
  }),
  caddy: ({ pemFile, configFile, port, upstreams }) => ({
    exampleFile: 'Caddyfile',
    wrapper: ['', ''],
    replacements: [
      // By default, Caddy also listens on other ports, and requests certificates from a certificate authority.
      [
        '\tservers {',
        `\tadmin off\n\tauto_https off\n\tdefault_bind ${PROXY_ADDRESSES.join(' ')}\n\tservers {`,
      ],
      [
        'one.example, two.example {',
        `https://one.example:${port}, https://two.example:${port} {\n\ttls ${pemFile} ${pemFile}`,
      ],
      ['reverse_proxy 127.0.0.1:3000', `reverse_proxy ${upstreams.join(' ')}`],
    ],
    args: ['run', '--adapter', 'caddyfile', '--config', configFile],
  }),
};

/**
 * Reads an example configuration.
 *
 * @param name a file in docs/proxies/
 */
export async function readProxyExample(
  name: string,
  replacements: ConfigReplacements,
): Promise<string> {
  const example = await readFile(path.join(EXAMPLES_FOLDER, name), 'utf8');
  return replacements.reduce((config, [text, replacement]) => {
    const parts = config.split(text);
    if (parts.length !== 2) {
      throw new Error(`the example must contain "${text}" exactly once`);
    }
    return parts.join(replacement);
  }, example);
}

/** Creates a self-signed certificate, writes it and its key to `pemFile`, and returns the certificate. */
async function createCertificate({ folder, pemFile }: ProxyContext): Promise<string> {
  const keyFile = path.join(folder, 'key.pem');
  const names = PROXIED_HOSTNAMES.map((name) => `DNS:${name}`).join(',');
  const { stdout: certificate } = await runProgram('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'],
    ...['-keyout', keyFile, '-subj', '/CN=nutpost test', '-addext', `subjectAltName=${names}`],
    ...['-days', '2'],
  ]);
  await writeFile(pemFile, certificate + (await readFile(keyFile, 'utf8')), { mode: 0o600 });
  return certificate;
}

async function assertInstalled(...programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    if (!(await isInstalled(program))) {
      throw new Error(`${program} is not installed (on Debian: apt-get install ${program}).`);
    }
  }
}

function isInstalled(program: string): Promise<boolean> {
  return runProgram('which', [program], { env: { PATH: PROGRAM_PATH } }).then(
    () => true,
    () => false,
  );
}

/** Returns null if the proxy does not yet listen on all addresses. */
async function checkListening(port: number): Promise<true | null> {
  const canConnectToEach = await Promise.all(PROXY_ADDRESSES.map((host) => canConnect(host, port)));
  return canConnectToEach.every(Boolean) ? true : null;
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
  return addresses.some((info) => info?.address === '::1');
}
