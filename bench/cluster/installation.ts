import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { HaproxyProcess } from '../../scripts/haproxy.ts';
import {
  installPatroniCluster,
  type PatroniCluster,
  startPatroniCluster,
} from '../../scripts/patroni-cluster.ts';
import { findFreePort } from '../../scripts/server-process.ts';
import type { MintFleet } from '../harness/mint-fleet.ts';
import { type BenchProcess, startProcess } from '../harness/processes.ts';
import { JWT_SECRET, PUBLIC_ORIGIN } from '../harness/servers.ts';
import type { LoadSettings } from './load-process.ts';
import type { MintProcess } from './mint-process.ts';

const HOST = '127.0.0.1';

const SERVICE_COUNT = 3;

/** The mints of the users. Each is watched by one of the services. */
const MINT_COUNT = 6;

/** Mints at which other invoices are open. */
const WATCHED_MINT_COUNT = 10;

/** HAProxy takes two file descriptors for each socket, and a process often may have only 20,000. */
const SOCKETS_PER_PROXY = 7_500;
const MAX_PROXY_CONNECTIONS = 9_500;

/** A load generator takes one file descriptor for each socket. */
const SOCKETS_PER_LOAD_PROCESS = 15_000;

const PROXY_READY_TIMEOUT_MS = 30_000;

/** For two servers that share a machine with 24 GB. */
const POSTGRES_PARAMETERS = {
  shared_buffers: '3GB',
  effective_cache_size: '8GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  wal_compression: 'lz4',
  wal_buffers: '64MB',
  autovacuum_vacuum_scale_factor: 0.02,
  autovacuum_vacuum_insert_scale_factor: 0.02,
  autovacuum_analyze_scale_factor: 0.02,
};

export type Service = BenchProcess<{ url: string; metricsUrl: string }> & {
  /** Lines of the log at level `warn` or above. */
  warnings: string[];
};

export interface Mints {
  process: BenchProcess<MintProcess>;
  fleet: BenchProcess<MintFleet>;
}

/** The reverse proxies in front of the services. */
export interface FrontProxies {
  urls: string[];
  statsUrls: string[];
  pids: number[];
}

export async function startCluster(stack: AsyncDisposableStack): Promise<PatroniCluster> {
  await installPatroniCluster();
  const cluster = await startPatroniCluster({
    replication: 'synchronous',
    parameters: POSTGRES_PARAMETERS,
  });
  stack.defer(() => cluster.stop());
  return cluster;
}

export async function startMints(stack: AsyncDisposableStack): Promise<Mints> {
  const process = await startProcess<MintProcess>(
    'the mints',
    import.meta.resolve('./mint-process.ts'),
    'mintUrls',
    { input: MINT_COUNT, hasOwnSession: true },
  );
  stack.use(process);
  const fleet = await startProcess<MintFleet>(
    'the mint fleet',
    import.meta.resolve('../harness/mint-fleet.ts'),
    'controlUrl',
    { input: Array<string>(WATCHED_MINT_COUNT).fill('fast'), hasOwnSession: true },
  );
  stack.use(fleet);
  return { process, fleet };
}

/** Starts the services with the default limits. */
export async function startServices(
  stack: AsyncDisposableStack,
  databaseUrl: string,
  { process, fleet }: Mints,
): Promise<Service[]> {
  const mintUrls = [...process.readyMessage.mintUrls, ...fleet.readyMessage.mintUrls];
  const services: Service[] = [];
  for (let i = 0; i < SERVICE_COUNT; i += 1) {
    const warnings: string[] = [];
    const program = import.meta.resolve('../../bin/nutpost.js');
    const service = await startProcess<Service['readyMessage']>('the service', program, 'url', {
      env: {
        PORT: String(await findFreePort(HOST)),
        METRICS_PORT: String(await findFreePort(HOST)),
        PUBLIC_ORIGINS: PUBLIC_ORIGIN,
        TRUST_PROXY: HOST,
        DATABASE_URL: databaseUrl,
        DEFAULT_MINT_URL: mintUrls[0] ?? '',
        // The limits on mints that users choose do not apply to these mints.
        ZAP_MINTS: mintUrls.join(','),
        // Mints run on this machine.
        ALLOW_PRIVATE_NETWORKS: 'true',
        JWT_SECRET,
      },
      hasOwnSession: true,
      onOutput: (chunk) => {
        const lines = chunk.toString().split('\n');
        warnings.push(...lines.filter((line) => /"level":"(warn|error|fatal)/.test(line)));
      },
    });
    stack.use(service);
    services.push({ ...service, warnings });
  }
  return services;
}

/** Starts as many proxies as the sockets need, and waits until each has found all services ready. */
export async function startFrontProxies(
  stack: AsyncDisposableStack,
  services: readonly Service[],
  socketCount: number,
): Promise<FrontProxies> {
  const proxies: FrontProxies = { urls: [], statsUrls: [], pids: [] };
  for (let i = 0; i < Math.ceil(socketCount / SOCKETS_PER_PROXY); i += 1) {
    const port = await findFreePort(HOST);
    const statsPort = await findFreePort(HOST);
    const config = createFrontConfig(port, statsPort, services);
    const proxy = await HaproxyProcess.start(config, port);
    stack.defer(() => proxy.stop());
    proxies.urls.push(`http://${HOST}:${port}`);
    proxies.statsUrls.push(`http://${HOST}:${statsPort}/;csv`);
    proxies.pids.push(proxy.pid);
  }
  const deadlineMs = performance.now() + PROXY_READY_TIMEOUT_MS;
  for (;;) {
    const servers = await readProxyServers(proxies);
    if (servers.every(({ status, isChecked }) => status === 'UP' && isChecked)) {
      return proxies;
    }
    if (performance.now() > deadlineMs) {
      throw new Error('HAProxy does not find the services ready');
    }
    await delay(500);
  }
}

/** Starts the load generators, each with an equal share of the wallets. */
export async function startLoadProcesses(
  stack: AsyncDisposableStack,
  { process }: Mints,
  proxies: FrontProxies,
  socketCount: number,
): Promise<BenchProcess<{ controlUrl: string }>[]> {
  const count = Math.ceil(socketCount / SOCKETS_PER_LOAD_PROCESS);
  const starting = Array.from({ length: count }, (_, i) => {
    const first = Math.floor((socketCount * i) / count);
    const end = Math.floor((socketCount * (i + 1)) / count);
    const input: LoadSettings = {
      wallets: { first, count: end - first },
      proxyUrls: proxies.urls,
      mintCount: MINT_COUNT,
      mintControlUrl: process.readyMessage.controlUrl,
    };
    const program = import.meta.resolve('./load-process.ts');
    return startProcess<{ controlUrl: string }>('the load generator', program, 'controlUrl', {
      input,
      hasOwnSession: true,
    });
  });
  const processes = await Promise.all(starting);
  for (const loadProcess of processes) {
    stack.use(loadProcess);
  }
  return processes;
}

/** What a proxy reports about a service. */
interface ProxyServer {
  backend: string;
  service: string;
  status: string;
  isChecked: boolean;
  connections: number;
  failures: number;
}

/** Failed health checks, failed connections and broken responses. */
const FAILURE_COLUMNS = ['chkfail', 'econ', 'eresp', 'hrsp_5xx'];

export async function readProxyServers({ statsUrls }: FrontProxies): Promise<ProxyServer[]> {
  const pages = await Promise.all(statsUrls.map(async (url) => (await request(url)).body.text()));
  return pages.flatMap((page) => {
    const [header = '', ...lines] = page.trim().split('\n');
    const names = header.replace('# ', '').split(',');
    return lines.flatMap((line) => {
      const values = line.split(',');
      const read = (name: string) => values[names.indexOf(name)] ?? '';
      if (!read('svname').startsWith('nutpost')) {
        return [];
      }
      return {
        backend: read('pxname'),
        service: read('svname'),
        status: read('status'),
        // Empty in the backend that shares the checks of the other one.
        isChecked: ['L7OK', ''].includes(read('check_status')),
        connections: Number(read('scur')),
        failures: FAILURE_COLUMNS.reduce((sum, name) => sum + Number(read(name)), 0),
      };
    });
  });
}

/** Like docs/proxies/haproxy.cfg, without TLS, and with several services. */
function createFrontConfig(port: number, statsPort: number, services: readonly Service[]): string {
  const listServers = (getOptions: (name: string) => string) =>
    services
      .map(({ readyMessage: { url } }, i) => {
        const name = `nutpost${i + 1}`;
        return `  server ${name} ${new URL(url).host} ${getOptions(name)}`;
      })
      .join('\n');
  return `
global
  maxconn ${MAX_PROXY_CONNECTIONS}
  nbthread 1
defaults
  mode http
  timeout connect 5s
  # The service responds to the check within 2 s, even if its database does not.
  timeout check 4s
  timeout http-request 10s
  timeout http-keep-alive 60s
  timeout client 60s
  timeout server 120s
  timeout tunnel 120s
frontend nutpost
  bind ${HOST}:${port}
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto https
  use_backend sockets if { path /api/v2/ws/quote }
  default_backend requests
backend requests
  balance roundrobin
  option httpchk GET /health/ready
  http-check expect status 200
  default-server inter 2s fall 3 rise 1
${listServers(() => 'check')}
backend sockets
  balance leastconn
  # Each service is checked once, in the other backend.
${listServers((name) => `track requests/${name}`)}
frontend statistics
  bind ${HOST}:${statsPort}
  stats enable
  stats uri /
`;
}
