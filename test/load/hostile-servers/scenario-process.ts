import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { TestMint } from '../../../demo/test-mint.ts';
import { runProgram } from '../../../scripts/debian-packages.ts';
import { ServiceProcess } from '../../faults/service-process.ts';
import { TEST_ZAP_SECRET_KEY } from '../../helpers/relays/zap-requests.ts';
import type {
  AttackerCommand,
  AttackerOptions,
  AttackerReport,
  ZapInvoice,
} from './attacker-process.ts';
import {
  type CostOfOtherMints,
  type Measurements,
  measureCostOfOtherMints,
  prepareHonestClients,
  type ReachableMint,
} from './honest-clients.ts';
import { getAttackAddress, prepareNamespace } from './namespace.ts';
import type { TlsIdentity } from './tls-attacks.ts';

export type AttackName = AttackerOptions['attack'];

/** Measures the service during an attack, if any. If `isRestarted`, the service is killed and restarted first. */
export interface ScenarioCommand {
  attack: AttackName | null;
  isRestarted?: boolean;
}

export interface ScenarioResult extends Measurements {
  /** Resident memory: growth from the start of the attack to its highest value. */
  memoryGrowthMb: number;
  /** CPU time of the service during the attack, as a share of one core. */
  cpuShare: number;
  attacker: AttackerReport | null;
}

const PROJECT = path.resolve(import.meta.dirname, '../../..');

const ATTACKER_PROCESS = fileURLToPath(import.meta.resolve('./attacker-process.ts'));

const OPERATOR_ADDRESS = '11.0.0.1';
const OTHER_ADDRESSES = ['11.0.0.2', '11.0.0.3'];
const MINT_PORT = 8_000;
const SERVICE_PORT = 3_000;
const HOSTS_PER_GROUP = 250;

const MEASUREMENT_MS = 4_000;

/** Lets the attack reach its full strength, and a restarted service subscribe to its quotes. */
const WARM_UP_MS = 1_000;
const RESTART_WARM_UP_MS = 3_000;

/** A service that does not respond any more recovers when the attack ends, and the measurement fails. */
const MAX_ATTACK_MS = 70_000;

// This process runs in a namespace of its own. It needs a folder, and the attacks that it will be told to run.
const folder = process.argv[2] ?? '';
const certificateFile = path.join(folder, 'certificates.pem');
let service: ServiceProcess;
let operatorMint: TestMint;
const otherMints: ReachableMint[] = [];
const attackers = new Map<AttackName, ChildProcess>();

process.once('disconnect', () => process.exit());
const cost = await start(process.argv.slice(3) as AttackName[]);
process.on('message', (command: ScenarioCommand) => {
  void run(command).then((result) => process.send?.(result));
});
process.send?.(cost);

/** As the Dockerfile does. Without a cache, each thread loads the compiler of TypeScript, which takes 10 MB. */
function fillCompileCaches(): void {
  const run = (...args: string[]) =>
    execFileSync(process.execPath, args, {
      cwd: PROJECT,
      env: { NODE_COMPILE_CACHE: 'node_modules/.cache/nutpost' },
    });
  run('bin/nutpost.js', '--version');
  run('--heap-growing-percent=50', 'src/net/network-thread-worker.ts');
}

async function start(attacks: readonly AttackName[]): Promise<CostOfOtherMints> {
  prepareNamespace(folder);
  const mintIdentity = await createIdentity([OPERATOR_ADDRESS, ...OTHER_ADDRESSES]);
  const attackerIdentities: TlsIdentity[] = [];
  for (let group = 1; group <= attacks.length; group += 1) {
    attackerIdentities.push(
      await createIdentity(
        Array.from({ length: HOSTS_PER_GROUP }, (_, host) => getAttackAddress(group, host)),
      ),
    );
  }
  const identities = [mintIdentity, ...attackerIdentities];
  writeFileSync(certificateFile, identities.map(({ cert }) => cert).join(''));
  const defaultMint = await startMint(OPERATOR_ADDRESS, mintIdentity);
  operatorMint = defaultMint.mint;
  for (const address of OTHER_ADDRESSES) {
    otherMints.push(await startMint(address, mintIdentity));
  }
  service = new ServiceProcess({
    name: 'nutpost',
    port: SERVICE_PORT,
    folder,
    env: {
      DEFAULT_MINT_URL: defaultMint.url,
      PUBLIC_ORIGINS: `http://127.0.0.1:${SERVICE_PORT}`,
      DATA_DIR: path.join(folder, 'data'),
      ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY,
      NODE_EXTRA_CA_CERTS: certificateFile,
      NODE_OPTIONS: '--max-semi-space-size=16',
    },
    onUnexpectedExit: (description) => {
      throw new Error(`${description}: see ${folder}`);
    },
  });
  fillCompileCaches();
  service.start();
  await service.waitUntilReady();
  const cost = await measureCostOfOtherMints(
    service.origin,
    operatorMint,
    otherMints[0] as ReachableMint,
    () => readMemoryMb('VmRSS'),
  );
  await Promise.all(
    attacks.map(async (attack, index) => {
      const identity = attackerIdentities[index] as TlsIdentity;
      const options = { attack, group: index + 1, identity, serviceOrigin: service.origin };
      attackers.set(attack, await startAttacker(options));
    }),
  );
  return cost;
}

async function run({ attack, isRestarted = false }: ScenarioCommand): Promise<ScenarioResult> {
  const attacker = attack === null ? null : (attackers.get(attack) as ChildProcess);
  const measure = await prepareHonestClients(service.origin, operatorMint, otherMints);
  resetPeakMemory();
  const memoryBeforeMb = readMemoryMb('VmRSS');
  if (attacker !== null) {
    await command(attacker, 'attack');
  }
  if (isRestarted) {
    await service.kill();
    service.start();
    await service.waitUntilReady();
  }
  await delay(isRestarted ? RESTART_WARM_UP_MS : WARM_UP_MS);
  const cpuBefore = readCpuSeconds();
  const startedAtMs = performance.now();
  const measured = measure(MEASUREMENT_MS);
  await Promise.race([measured, delay(MAX_ATTACK_MS)]);
  const cpuShare = (readCpuSeconds() - cpuBefore) / ((performance.now() - startedAtMs) / 1_000);
  const memoryGrowthMb = readMemoryMb('VmHWM') - memoryBeforeMb;
  const report = attacker === null ? null : await command(attacker, 'stop');
  return { ...(await measured), memoryGrowthMb, cpuShare, attacker: report };
}

/** Creates a self-signed certificate for servers at IPv4 addresses. */
async function createIdentity(addresses: readonly string[]): Promise<TlsIdentity> {
  const keyFile = path.join(folder, 'key.pem');
  const names = addresses.map((address) => `IP:${address}`).join(',');
  const { stdout: cert } = await runProgram('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', keyFile, '-days', '2'],
    ...['-subj', `/CN=${addresses[0]}`, '-addext', `subjectAltName=${names}`],
  ]);
  return { cert, key: readFileSync(keyFile, 'utf8') };
}

/** Starts a mint at a public address. */
async function startMint(host: string, identity: TlsIdentity): Promise<ReachableMint> {
  const mint = await TestMint.start();
  const { port } = new URL(mint.url);
  const proxy = createTlsServer(identity, (client) => {
    const upstream = connect(Number(port), '127.0.0.1');
    client.pipe(upstream).pipe(client);
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
  });
  await once(proxy.listen(MINT_PORT, host), 'listening');
  return { mint, url: `https://${host}:${MINT_PORT}` };
}

async function startAttacker(options: AttackerOptions): Promise<ChildProcess> {
  const attacker = fork(ATTACKER_PROCESS);
  attacker.send(options);
  await once(attacker, 'message');
  attacker.once('exit', () => {
    throw new Error(`the attacker ended: ${options.attack}`);
  });
  attacker.on('message', (message: ZapInvoice | AttackerReport) => {
    if ('pr' in message) {
      operatorMint.pay(message.pr);
    }
  });
  if (options.attack !== 'DNS answers') {
    await command(attacker, 'watch quotes');
  }
  return attacker;
}

async function command(attacker: ChildProcess, name: AttackerCommand): Promise<AttackerReport> {
  attacker.send(name);
  for (;;) {
    const [message]: [ZapInvoice | AttackerReport] = (await once(attacker, 'message')) as never;
    if ('connections' in message) {
      return message;
    }
  }
}

/** Returns the current resident memory, or the highest since {@link resetPeakMemory} (proc(5)). */
function readMemoryMb(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
}

function resetPeakMemory(): void {
  writeFileSync(`/proc/${service.pid}/clear_refs`, '5');
}

/** User and system time (proc(5)). A tick is a hundredth of a second on Linux. */
function readCpuSeconds(): number {
  const stat = readFileSync(`/proc/${service.pid}/stat`, 'utf8');
  const [utime = '0', stime = '0'] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13);
  return (Number(utime) + Number(stime)) / 100;
}
