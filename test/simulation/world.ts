import path from 'node:path';
import type { EnvironmentVariables } from '../../src/config.ts';
import { endFaults, startFaults } from './fault-driver.ts';
import { DATABASE_FAULTS, FAULT_KINDS, type FaultKind, FaultPlan } from './faults.ts';
import { describeLogLine, FAULT, History } from './history.ts';
import { NameSale } from './name-sale.ts';
import { startPayer } from './payers.ts';
import { checkLeaks, checkLogLine, startProcessChecks } from './process-checks.ts';
import { Random } from './random.ts';
import { getKey, type NostrKey } from './recipients.ts';
import { Referee } from './referee.ts';
import { ZapReferee } from './referee-zaps.ts';
import { type Actor, currentActor, Scheduler, WORLD } from './scheduler.ts';
import { ServiceInstance } from './service-instance.ts';
import { SimulatedDatabase } from './simulated-database.ts';
import { MINT_FAULT_KINDS, SimulatedMint } from './simulated-mint.ts';
import { PUBLIC_HOST, SimulatedNetwork, SimulatedProxy } from './simulated-network.ts';
import { RELAY_FAULT_KINDS, SimulatedRelay } from './simulated-relay.ts';
import { Truth } from './truth.ts';
import { platform } from './virtual-platform.ts';
import { WALLET_KINDS, Wallet } from './wallets.ts';
import { chooseZapSettings, toZapEnvironment } from './zap-requests.ts';

export interface WorldOptions {
  seed: string;
  template: string;
  folder: string;
  isRecording: boolean;
  without?: ReadonlySet<FaultKind>;
  /** The only kinds of faults that may happen; null: all. */
  only?: ReadonlySet<FaultKind> | null;
  scenario?: Partial<Scenario>;
  /** Stops at this time. */
  untilMs?: number;
}

/** What a seed chooses, besides the faults. */
export interface Scenario {
  instances: number;
  mints: number;
  relays: number;
  recipients: number;
  payments: number;
  /** How long payers pay, and faults happen. */
  activeMs: number;
  /** The longest time until everything must have recovered. */
  recoveryMs: number;
}

/** Everything that exists in one run, and the only place where it is put together. */
export class World {
  readonly scheduler = new Scheduler();
  readonly random: Random;
  readonly history: History;
  readonly faults: FaultPlan;
  readonly truth = new Truth();
  readonly referee: Referee;
  readonly scenario: Scenario;
  readonly database: SimulatedDatabase;
  readonly network: SimulatedNetwork;
  readonly instances: readonly ServiceInstance[];
  readonly proxy: SimulatedProxy;
  readonly mints: readonly SimulatedMint[];
  /** Empty if the operator offers no zaps. */
  readonly relays: readonly SimulatedRelay[];
  readonly zapReferee: ZapReferee | null;
  readonly recipients: readonly NostrKey[];
  readonly wallets: readonly Wallet[];
  /** Read all lists at the end, as wallets do that are installed then. */
  readonly auditors: readonly Wallet[];
  /** Null: the service sells no names. */
  readonly sale: NameSale | null;
  readonly env: EnvironmentVariables;
  failedInvoices = 0;
  #endChecks = () => {};

  constructor(options: WorldOptions) {
    const { seed, template, folder } = options;
    this.random = new Random(seed);
    platform.scheduler = this.scheduler;
    platform.random = this.random.fork('platform');
    this.scheduler.stopAtMs = options.untilMs ?? Number.POSITIVE_INFINITY;
    this.history = new History(this.scheduler, options.isRecording);
    const kinds = [...FAULT_KINDS, ...MINT_FAULT_KINDS, ...RELAY_FAULT_KINDS];
    const isAllowed = (kind: FaultKind) =>
      !options.without?.has(kind) && (options.only?.has(kind) ?? true);
    this.faults = new FaultPlan(this.random.fork('faults'), kinds, isAllowed, (kind) =>
      this.history.add(FAULT, () => `${kind} (${currentActor().name})`),
    );
    this.referee = new Referee(
      this.scheduler,
      this.history,
      this.truth,
      DATABASE_FAULTS.some((kind) => this.faults.has(kind)),
    );
    this.scenario = { ...chooseScenario(this.random), ...options.scenario };
    const { scheduler, faults, history, scenario } = this;
    const parts = { scheduler, faults, history };
    this.database = new SimulatedDatabase({
      ...parts,
      random: this.random.fork('database'),
      template,
      file: path.join(folder, 'run.db'),
    });
    platform.databaseClock = this.database.clock;
    const networkContext = { ...parts, random: this.random.fork('network') };
    this.network = new SimulatedNetwork(networkContext);
    this.mints = Array.from({ length: scenario.mints }, (_, index) => {
      const host = `mint-${index + 1}.example`;
      const mint = new SimulatedMint(host, this.random.fork(host), faults, history);
      this.network.addHost(host, mint);
      return mint;
    });
    const zapRandom = this.random.fork('zaps');
    this.relays = Array.from({ length: scenario.relays }, (_, index) => {
      const host = `relay-${index + 1}.example`;
      const relay = new SimulatedRelay(host, {
        ...parts,
        random: this.random.fork(host),
        onEvent: (...event) => this.zapReferee?.checkEvent(...event),
      });
      this.network.addHost(host, relay);
      return relay;
    });
    const zapSettings = chooseZapSettings(zapRandom, this.relays, this.mints);
    this.zapReferee =
      this.relays.length === 0
        ? null
        : new ZapReferee({ scheduler, faults, referee: this.referee, settings: zapSettings });
    const saleRandom = this.random.fork('sale');
    this.sale = saleRandom.chance(0.33) ? new NameSale(this, saleRandom) : null;
    this.env = {
      ...this.sale?.env,
      ...(this.zapReferee !== null && toZapEnvironment(zapSettings)),
      DEFAULT_MINT_URL: this.mints[0]?.url,
      PUBLIC_ORIGINS: `https://${PUBLIC_HOST}`,
      TRUST_PROXY: '10.0.0.1',
      DATABASE_URL: 'postgres://simulated',
      JWT_SECRET: 'the secret of the simulation, of more than 32 letters',
      STOP_DELAY_SECONDS: '0',
      WEB_PAGES: 'false',
    };
    this.instances = Array.from(
      { length: scenario.instances },
      (_, index) => new ServiceInstance(`process-${'abc'[index]}`, this),
    );
    this.proxy = new SimulatedProxy(networkContext, this.instances, ({ method, path }) =>
      this.referee.report('requests end', `${method ?? 'GET'} ${path}`),
    );
    this.recipients = Array.from({ length: scenario.recipients }, (_, index) => getKey(index));
    this.wallets = this.recipients.map(
      (key, index) => new Wallet(this, `wallet-${index}`, key, this.random.pick(WALLET_KINDS)),
    );
    this.auditors = this.recipients.map(
      (key, index) => new Wallet(this, `auditor-${index}`, key, 'npubcash-sdk'),
    );
  }

  async run(): Promise<void> {
    const { scheduler, scenario, random } = this;
    this.#endChecks = startProcessChecks(this);
    for (const instance of this.instances) {
      this.startInstance(instance);
    }
    await scheduler.runUntil(1_000);
    for (const wallet of this.wallets) {
      wallet.start();
    }
    for (let number = 0; number < scenario.payments; number += 1) {
      const recipient = random.pick(this.recipients);
      const atMs = random.between(0, scenario.activeMs);
      scheduler.schedule(atMs, () => startPayer(this, number, recipient), WORLD);
    }
    this.sale?.start();
    startFaults(this);
    await scheduler.runUntil(1_000 + scenario.activeMs);
    endFaults(this);
    await this.#recover();
    await checkLeaks(this);
  }

  /** Waits until clients have seen everything, but no longer than the scenario allows. */
  async #recover(): Promise<void> {
    const { scheduler, scenario, referee, zapReferee, sale, truth } = this;
    const faultsEndedAtMs = scheduler.nowMs;
    const retryMs = zapReferee?.computeRetryMs(faultsEndedAtMs) ?? 0;
    const deadlineMs = Math.max(faultsEndedAtMs + scenario.recoveryMs, retryMs + 65_000);
    const areAllListed = () =>
      [...truth.paymentsByQuoteId.keys()].every((quoteId) => referee.isListed(quoteId));
    const isComplete = () =>
      areAllListed() && (zapReferee?.isComplete() ?? true) && (sale?.isQuiet() ?? true);
    while (scheduler.nowMs < deadlineMs && !isComplete()) {
      for (const auditor of areAllListed() ? [] : this.auditors) {
        scheduler.schedule(0, () => void auditor.readAll(), auditor.actor);
      }
      await scheduler.runUntil(scheduler.nowMs + 5_000);
    }
    zapReferee?.checkEnd(faultsEndedAtMs);
    for (const { quoteId, invoice, paidAtMs } of truth.paymentsByQuoteId.values()) {
      if (!referee.isListed(quoteId)) {
        referee.report(
          'every payment is listed',
          `${quoteId} of payer ${invoice.number}, paid at ${(paidAtMs / 1000).toFixed(3)}`,
        );
      }
    }
    await this.sale?.check();
  }

  startInstance(instance: ServiceInstance): void {
    if (instance.actor.isAlive) {
      return;
    }
    instance.start(this.database, this.network);
  }

  handleStartFailure(instance: ServiceInstance, error: unknown): void {
    this.history.add(instance.actor, () => `does not start: ${String(error)}`);
    instance.kill();
    this.scheduler.schedule(2_000, () => this.startInstance(instance), WORLD);
  }

  handleLogLine(actor: Actor, line: string): void {
    this.history.add(actor, () => describeLogLine(line));
    checkLogLine(this, line);
  }

  close(): void {
    this.#endChecks();
    for (const instance of this.instances) {
      instance.kill();
    }
    this.database.close();
  }
}

function chooseScenario(random: Random): Scenario {
  const activeMs = random.pick([30_000, 60_000, 300_000, 1_800_000]);
  return {
    instances: random.integer(1, 4),
    mints: random.integer(1, 6),
    relays: random.chance(0.5) ? random.integer(1, 6) : 0,
    recipients: random.integer(2, 12),
    payments: Math.floor(random.pick([20, 60, 150])),
    activeMs,
    recoveryMs: 1_800_000,
  };
}
