import path from 'node:path';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { noteCollections } from './collections.ts';
import { endFaults, startFaults } from './fault-driver.ts';
import { type FaultKind, FaultPlan } from './faults.ts';
import {
  checkPayments,
  checkSockets,
  checkWallets,
  getLastDeadlineMs,
  isComplete,
} from './final-checks.ts';
import { Health } from './health.ts';
import { describeLogLine, FAULT, History } from './history.ts';
import { NameSale, TREASURY_SECRET } from './name-sale.ts';
import { Operator } from './operator.ts';
import { payNow, startPayer } from './payers.ts';
import { checkEnd, checkLoggedWords, checkLogLine, startProcessChecks } from './process-checks.ts';
import { getKey, type NostrKey } from './recipients.ts';
import { Referee } from './referee.ts';
import { chooseArrivalsMs, chooseScenario, type Scenario } from './scenario.ts';
import { type Actor, currentActor, Scheduler, WORLD } from './scheduler.ts';
import { ServiceInstance } from './service-instance.ts';
import { Shop } from './shops.ts';
import { type DatabaseContext, SimulatedDatabase } from './simulated-database.ts';
import { SimulatedMint } from './simulated-mint.ts';
import { PUBLIC_HOST, SimulatedNetwork, SimulatedProxy } from './simulated-network.ts';
import { SimulatedRelay } from './simulated-relay.ts';
import { Truth } from './truth.ts';
import { platform, wallClockMs } from './virtual-platform.ts';
import { WALLET_KINDS, Wallet } from './wallets.ts';
import { ZapReferee } from './zap-referee.ts';
import { chooseZapSettings, toZapEnvironment } from './zap-requests.ts';

export interface WorldOptions {
  seed: string;
  template: string;
  folder: string;
  isRecording: boolean;
  without?: ReadonlySet<string>;
  /** The only kinds of faults that may happen; null: all. */
  only?: ReadonlySet<string> | null;
  scenario?: Partial<Scenario>;
  /** Stops at this time. */
  untilMs?: number;
}

/** The longest pause before a process connects to a mint again, and a minute more. */
const CALM_AFTER_MS = 11 * 60_000;

/** Until purchases have ended. */
const MAX_RECOVERY_MS = 30 * 60_000;

/** Everything that exists in one run, and the only place where it is put together. */
export class World {
  readonly scheduler = new Scheduler();
  readonly random: SeededRandom;
  readonly history: History;
  readonly faults: FaultPlan;
  readonly truth: Truth;
  readonly health = new Health(this);
  readonly referee: Referee;
  readonly scenario: Scenario;
  readonly database: SimulatedDatabase;
  readonly databaseContext: DatabaseContext;
  /** In some seeds. */
  readonly operator: Operator | null;
  readonly network: SimulatedNetwork;
  readonly instances: readonly ServiceInstance[];
  readonly proxy: SimulatedProxy;
  readonly mints: readonly SimulatedMint[];
  /** Empty if the operator offers no zaps. */
  readonly relays: readonly SimulatedRelay[];
  readonly zapReferee: ZapReferee | null;
  readonly recipients: readonly NostrKey[];
  /** Recipients with a webhook. */
  readonly shops: readonly Shop[];
  readonly wallets: readonly Wallet[];
  /** Read all lists at the end, as wallets do that are installed then. */
  readonly auditors: readonly Wallet[];
  /** Null: the service sells no names. */
  readonly sale: NameSale | null;
  /** The settings of the next process that starts. */
  readonly env: Record<string, string | undefined>;
  /** Ids and secrets in log lines, each with a line. */
  readonly loggedWords = new Map<string, string>();
  failedInvoices = 0;
  #endChecks = () => {};
  #payerCount = 0;

  constructor(options: WorldOptions) {
    const { seed, template, folder } = options;
    this.random = new SeededRandom(seed);
    platform.scheduler = this.scheduler;
    platform.random = this.random.fork('platform');
    this.scheduler.stopAtMs = options.untilMs ?? Number.POSITIVE_INFINITY;
    this.history = new History(this.scheduler, options.isRecording);
    this.scenario = { ...chooseScenario(this.random, seed), ...options.scenario };
    const isAllowed = (kind: FaultKind) =>
      !options.without?.has(kind) &&
      (options.only?.has(kind) ?? true) &&
      (this.scenario.shops > 0 || !kind.startsWith('shop '));
    this.faults = new FaultPlan(this.random.fork('faults'), isAllowed, (kind, place) => {
      this.history.add(FAULT, () => `${kind} (${currentActor().name})`);
      this.health.recordFault(kind, place);
    });
    noteCollections(this.scenario.checksLeaks);
    const { scheduler, faults, history, scenario } = this;
    const parts = { scheduler, faults, history };
    this.databaseContext = {
      ...parts,
      random: this.random.fork('database'),
      template,
      file: path.join(folder, 'run.db'),
    };
    this.database = new SimulatedDatabase(this.databaseContext);
    platform.databaseClock = this.database.clock;
    const networkContext = { ...parts, random: this.random.fork('network') };
    this.network = new SimulatedNetwork(networkContext);
    this.mints = Array.from({ length: scenario.mints }, (_, index) => {
      const host = `mint-${index + 1}.example`;
      const mint = new SimulatedMint(host, this.random.fork(host), faults, history);
      // With shops, the default mint has a deadline.
      Object.assign(mint.switches, chooseCollectDeadline(index + Math.min(scenario.shops, 1)));
      mint.switches.expirySeconds = scenario.expirySeconds ?? mint.switches.expirySeconds;
      this.network.addHost(host, mint);
      return mint;
    });
    this.truth = new Truth(scheduler, this.mints);
    const { database, truth, health } = this;
    this.referee = new Referee({ ...parts, database, truth, health });
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
    this.sale = scenario.sales > 0 ? new NameSale(this, this.random.fork('sale')) : null;
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
      ...(scenario.shops > 0 && { TREASURY_SECRET }),
      NOTIFICATIONS: String(scenario.shops > 0),
    };
    this.instances = Array.from(
      { length: scenario.instances },
      (_, index) => new ServiceInstance(`process-${'abcdefghij'[index]}`, this),
    );
    this.proxy = new SimulatedProxy(networkContext, this.instances, ({ method, path }) =>
      this.referee.report('requests end', `${method ?? 'GET'} ${path}`),
    );
    this.recipients = Array.from({ length: scenario.recipients }, (_, index) => getKey(index));
    this.wallets = this.recipients.flatMap((key, index) => {
      const kinds = this.random.shuffle(WALLET_KINDS).slice(0, scenario.wallets);
      return kinds.map((kind) => new Wallet(this, `wallet-${index}-${kind}`, key, kind));
    });
    this.auditors = this.recipients.map(
      (key, index) => new Wallet(this, `auditor-${index}`, key, 'npubcash-sdk'),
    );
    this.shops = this.recipients.slice(0, scenario.shops).map((key, index) => {
      const shop = new Shop(this, index, key);
      this.network.addHost(shop.host, shop);
      return shop;
    });
    this.operator = scenario.operators > 0 ? new Operator(this) : null;
  }

  async run(): Promise<void> {
    const { scheduler, scenario, random } = this;
    this.#endChecks = startProcessChecks(this);
    for (const instance of this.instances) {
      this.startInstance(instance);
    }
    await scheduler.runUntil(1_000);
    const hasOutage = scenario.outageHours > 0;
    if (this.faults.kinds.length === 0 && !hasOutage) {
      this.referee.calmSinceMs = scheduler.nowMs;
    }
    this.sale?.start();
    this.#startWallets();
    for (const shop of this.shops) {
      shop.addWebhook();
    }
    this.#startPayers(chooseArrivalsMs(random, scenario));
    this.#deleteOldQuotes();
    this.operator?.start();
    startFaults(this);
    await scheduler.runUntil(1_000 + scenario.activeMs);
    endFaults(this);
    this.referee.faultsEndedAtMs = scheduler.nowMs;
    await this.#recover();
    if (hasOutage) {
      await this.#runOutage();
    }
    if (scenario.hasCalmPhase && (this.faults.kinds.length > 0 || hasOutage)) {
      await this.#runCalmPhase();
    }
    this.zapReferee?.checkEnd(this.referee.faultsEndedAtMs);
    checkPayments(this);
    await checkWallets(this);
    for (const shop of this.shops) {
      shop.checkEnd();
    }
    checkSockets(this);
    await this.sale?.check();
    checkLoggedWords(this);
    this.operator?.checkInvoices();
    await checkEnd(this);
  }

  #startWallets(): void {
    for (const wallet of this.wallets) {
      // One wallet of a recipient chooses mints.
      const isFirst = this.wallets.find(({ key }) => key === wallet.key) === wallet;
      const choosesMints = isFirst && this.random.chance(0.5);
      wallet.start({ choosesMints, isLocking: wallet.kind === 'cdk' });
    }
  }

  #startPayers(arrivalsMs: readonly number[]): void {
    for (const atMs of arrivalsMs) {
      const number = this.#payerCount;
      this.#payerCount += 1;
      const recipient = this.random.pick(this.recipients);
      this.scheduler.schedule(atMs, () => startPayer(this, number, recipient), WORLD);
    }
  }

  #deleteOldQuotes(): void {
    const { quoteRetentionMs } = this.scenario;
    if (quoteRetentionMs === null) {
      return;
    }
    for (const mint of this.mints) {
      mint.deleteExpired((wallClockMs() - quoteRetentionMs) / 1_000);
    }
    this.scheduler.schedule(30_000, () => this.#deleteOldQuotes(), WORLD);
  }

  /** A mint and a relay are gone for hours. What was paid just before must be listed soon after. */
  async #runOutage(): Promise<void> {
    const { scheduler, scenario, relays, truth } = this;
    const random = this.random.fork('hours');
    const outageMs = scenario.outageHours * 3_600_000;
    this.#startPayers(Array.from({ length: 20 }, () => random.between(0, 60_000)));
    this.#startPayers(Array.from({ length: 20 }, () => random.between(60_000, outageMs)));
    await scheduler.runUntil(scheduler.nowMs + 60_000);
    const mint = truth.invoices.at(-1)?.mint ?? (this.mints[0] as SimulatedMint);
    const hosts = [mint, ...relays.slice(0, 1)];
    for (const invoice of truth.invoices.filter((each) => each.mint === mint)) {
      if (random.chance(0.5)) {
        payNow(this, invoice);
      }
    }
    mint.goneForHoursSinceMs = scheduler.nowMs;
    for (const host of hosts) {
      host.stop();
    }
    await scheduler.runUntil(scheduler.nowMs + outageMs);
    for (const host of hosts) {
      host.start();
    }
    this.referee.faultsEndedAtMs = scheduler.nowMs;
    await this.#recover();
  }

  /**
   * More payments, also of old invoices, after each socket to a mint was tried again. They must be as prompt as without
   * faults.
   */
  async #runCalmPhase(): Promise<void> {
    const { scheduler, random, scenario, referee, history, truth } = this;
    await scheduler.runUntil(scheduler.nowMs + CALM_AFTER_MS);
    history.add('world', () => 'calm begins');
    referee.calmSinceMs = scheduler.nowMs;
    const activeMs = random.pick([5_000, 60_000]);
    this.#startPayers(chooseArrivalsMs(random, { ...scenario, payments: 30, activeMs }));
    for (const invoice of truth.invoices) {
      if (invoice.payment === null && random.chance(0.3)) {
        scheduler.schedule(random.between(0, activeMs), () => payNow(this, invoice), WORLD);
      }
    }
    await scheduler.runUntil(scheduler.nowMs + activeMs);
    await this.#recover();
  }

  /** Waits until clients have seen everything, but no longer than the documents say. */
  async #recover(): Promise<void> {
    const { scheduler, zapReferee, sale, shops } = this;
    const startedAtMs = scheduler.nowMs;
    const receiptsDueAtMs =
      (zapReferee?.computeRetryMs(this.referee.faultsEndedAtMs) ?? 0) + 65_000;
    for (;;) {
      const areListsComplete = isComplete(this, startedAtMs);
      const areOthersComplete =
        (zapReferee?.isComplete() ?? true) &&
        (sale?.isQuiet() ?? true) &&
        shops.every((shop) => shop.isComplete());
      const lastDeadlineMs = getLastDeadlineMs(this);
      // Auditors read at least once.
      const listsDueAtMs = Math.max(startedAtMs, lastDeadlineMs) + 30_000;
      const othersDueAtMs = Math.max(startedAtMs + MAX_RECOVERY_MS, receiptsDueAtMs);
      if (
        (areListsComplete || scheduler.nowMs >= listsDueAtMs) &&
        (areOthersComplete || scheduler.nowMs >= othersDueAtMs)
      ) {
        return;
      }
      for (const auditor of isComplete(this, scheduler.nowMs) ? [] : this.auditors) {
        scheduler.schedule(0, () => void auditor.readAll(), auditor.actor);
      }
      const isSoon = scheduler.nowMs < startedAtMs + 60_000;
      await scheduler.runUntil(scheduler.nowMs + (isSoon ? 5_000 : 20_000));
    }
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

/** A mint is known to issue expired quotes, refuses, or issues them although that is not known. Uses no random numbers. */
function chooseCollectDeadline(index: number) {
  return {
    version: index % 3 === 0 ? 'Nutshell/0.21.0' : 'Other/1',
    refusesAfterExpiry: index % 3 === 1,
  };
}
