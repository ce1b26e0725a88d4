import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { TestMint } from '../../../demo/test-mint.ts';
import { runProgram } from '../../../scripts/debian-packages.ts';
import { TEST_ZAP_SECRET_KEY } from '../../helpers/relays/zap-requests.ts';
import { ServiceProcess } from '../../helpers/service/service-process.ts';
import { getAttackAddress } from './attack-host.ts';
import type {
  AttackerCommand,
  AttackerOptions,
  AttackerReport,
  ZapInvoice,
} from './attacker-process.ts';
import { NAME_SERVER } from './dns-flood-server.ts';
import {
  type CostOfOtherMints,
  type Measurements,
  measureCostOfOtherMints,
  prepareHonestClients,
  type ReachableMint,
} from './honest-clients.ts';
import type { TlsIdentity } from './tls-attacks.ts';

/**
 * `node scenario-process.ts FOLDER ATTACK...`: starts the service, honest mints and the attackers, and sends the cost
 * of a mint that a user chose. Then it executes commands. It must run in a network namespace of its own.
 */

export type AttackName = AttackerOptions['attack'];

/** Measures the service during an attack. If `isRestarted`, the service is killed and restarted first. */
export interface ScenarioCommand {
  attack: AttackName;
  isRestarted: boolean;
}

export interface ScenarioResult extends Measurements {
  memoryGrowthMb: number;
  maxBytesPerConnection: number;
}

const OPERATOR_ADDRESS = '11.0.0.1';
const OTHER_ADDRESSES = ['11.0.0.2', '11.0.0.3'];
const MINT_PORT = 8_000;
const SERVICE_PORT = 3_000;
const HOSTS_PER_GROUP = 250;

const MEASUREMENT_MS = 3_000;

/** Lets the attack reach its full strength, and a restarted service subscribe to its quotes. */
const WARM_UP_MS = 1_000;
const RESTART_WARM_UP_MS = 3_000;

/** A service that does not respond any more recovers when the attack ends, and the measurement fails. */
const MAX_ATTACK_MS = 70_000;

const [, , folder = '', ...attackNames] = process.argv;
const certificateFile = path.join(folder, 'certificates.pem');
let service: ServiceProcess;
let operatorMint: TestMint;
const otherMints: ReachableMint[] = [];
const attackers = new Map<AttackName, ChildProcess>();

process.once('disconnect', () => process.exit());
const cost = await start(attackNames as AttackName[]);
process.on('message', (command: ScenarioCommand) => {
  void run(command).then((result) => process.send?.(result));
});
process.send?.(cost);

/** Gives public addresses to this machine, because the service refuses others, and replaces the name servers. */
function prepareNamespace(): void {
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  execFileSync('ip', ['address', 'add', '11.0.0.0/16', 'dev', 'lo']);
  const file = path.join(folder, 'resolv.conf');
  writeFileSync(file, `nameserver ${NAME_SERVER}\n`);
  execFileSync('mount', ['--bind', file, '/etc/resolv.conf']);
}

/** As the Dockerfile does. Without a cache, each thread loads the compiler of TypeScript, which takes 10 MB. */
function fillCompileCaches(): void {
  for (const args of [
    ['bin/nutpost.js', '--version'],
    ['--heap-growing-percent=50', 'src/net/network-thread-worker.ts'],
  ]) {
    const env = { NODE_COMPILE_CACHE: 'node_modules/.cache/nutpost' };
    execFileSync(process.execPath, args, { env });
  }
}

async function start(attacks: readonly AttackName[]): Promise<CostOfOtherMints> {
  prepareNamespace();
  const mintIdentity = await createIdentity([OPERATOR_ADDRESS, ...OTHER_ADDRESSES]);
  const attackerIdentities = await Promise.all(
    attacks.map((_, index) =>
      createIdentity(
        Array.from({ length: HOSTS_PER_GROUP }, (_, host) => getAttackAddress(index + 1, host)),
      ),
    ),
  );
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
    attacks.map((attack, index) => {
      const identity = attackerIdentities[index] as TlsIdentity;
      return startAttacker({ attack, group: index + 1, identity, serviceOrigin: service.origin });
    }),
  );
  return cost;
}

async function run({ attack, isRestarted }: ScenarioCommand): Promise<ScenarioResult> {
  const attacker = attackers.get(attack) as ChildProcess;
  const measure = await prepareHonestClients(service.origin, operatorMint, otherMints);
  // The highest resident memory starts again from the current one (proc(5)).
  writeFileSync(`/proc/${service.pid}/clear_refs`, '5');
  const memoryBeforeMb = readMemoryMb('VmRSS');
  await command(attacker, 'attack');
  if (isRestarted) {
    await service.kill();
    service.start();
    await service.waitUntilReady();
  }
  await delay(isRestarted ? RESTART_WARM_UP_MS : WARM_UP_MS);
  const measured = measure(MEASUREMENT_MS);
  await Promise.race([measured, delay(MAX_ATTACK_MS)]);
  const memoryGrowthMb = readMemoryMb('VmHWM') - memoryBeforeMb;
  const { maxBytesPerConnection } = await command(attacker, 'stop');
  return { ...(await measured), memoryGrowthMb, maxBytesPerConnection };
}

async function createIdentity(addresses: readonly string[]): Promise<TlsIdentity> {
  const keyFile = path.join(folder, `${addresses[0]}.pem`);
  const names = addresses.map((address) => `IP:${address}`).join(',');
  const { stdout: cert } = await runProgram('openssl', [
    ...['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', keyFile, '-days', '2'],
    ...['-subj', `/CN=${addresses[0]}`, '-addext', `subjectAltName=${names}`],
  ]);
  return { cert, key: readFileSync(keyFile, 'utf8') };
}

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

async function startAttacker(options: AttackerOptions): Promise<void> {
  const attacker = fork(path.join(import.meta.dirname, 'attacker-process.ts'));
  await command(attacker, options);
  attacker.once('exit', () => {
    throw new Error(`the attacker ended: ${options.attack}`);
  });
  attacker.on('message', (message: ZapInvoice | AttackerReport) => {
    if ('pr' in message) {
      operatorMint.pay(message.pr);
    }
  });
  attackers.set(options.attack, attacker);
}

async function command(
  attacker: ChildProcess,
  message: AttackerCommand | AttackerOptions,
): Promise<AttackerReport> {
  attacker.send(message);
  for (;;) {
    const [reply]: [ZapInvoice | AttackerReport] = (await once(attacker, 'message')) as never;
    if (!('pr' in reply)) {
      return reply;
    }
  }
}

function readMemoryMb(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
}
