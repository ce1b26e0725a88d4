import { createHmac } from 'node:crypto';
import type { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { isKnownToIssueAfterExpiry } from '../../src/mints/issue-after-expiry.ts';
import { MAX_DRIFT_MS } from './health.ts';
import type { NostrKey } from './recipients.ts';
import { Actor } from './scheduler.ts';
import type { HostResponse, SimulatedHost } from './simulated-network.ts';
import { readPaymentHash } from './timeline.ts';
import type { Payment } from './truth.ts';
import { toUnixSeconds } from './virtual-platform.ts';
import { WalletClient } from './wallet-client.ts';
import type { World } from './world.ts';

type EventType = 'received' | 'deadline' | 'collected';

interface WebhookBody {
  type: string;
  data: { amount: number; payments: ReportedPayment[] };
}

interface ReportedPayment {
  paymentHash: string;
  amount: number;
  collectBy?: number;
}

/** What a shop knows of a payment. Times are virtual milliseconds. */
interface Report {
  /** Of the messages with this event, accepted or not. */
  ids: Set<string>;
  /** When it accepted each. */
  acceptedAtMs: number[];
}

/** A recipient's program, which gets webhooks. Checks each against what really happened. */
export class Shop implements SimulatedHost {
  readonly host: string;
  readonly key: NostrKey;
  actor: Actor;
  readonly #owner: Actor;
  readonly #world: World;
  readonly #random: SeededRandom;
  readonly #client: WalletClient;
  /** Null until the service has confirmed it. */
  #webhook: { key: Buffer; confirmedAtMs: number } | null = null;
  /** The types of all messages, by id. */
  readonly #types = new Map<string, string>();
  /** By event and quote id. */
  readonly #reports = new Map<string, Report>();
  /** The accepted messages, the newest last. */
  readonly #accepted = new Map<string, { atMs: number; payments: readonly Payment[] }>();

  constructor(world: World, index: number, key: NostrKey) {
    this.host = `shop-${index + 1}.example`;
    this.key = key;
    this.actor = new Actor(`shop-${index + 1}`);
    this.#owner = new Actor(`shop-owner-${index + 1}`);
    this.#world = world;
    this.#random = world.random.fork(this.host);
    this.#client = new WalletClient(world, this.#owner, key, false);
  }

  /** Adds the webhook. If the answer was lost, adds another one instead. */
  addWebhook(): void {
    const { scheduler, truth } = this.#world;
    const sleep = (lowMs: number, highMs: number) =>
      scheduler.sleep(this.#random.between(lowMs, highMs));
    scheduler.start(this.#owner, async () => {
      await sleep(0, 5_000);
      for (;;) {
        const requestedAtMs = scheduler.nowMs;
        const response = await this.#client.request({
          method: 'PUT',
          path: '/api/v2/user/notifications',
          body: { channels: [{ kind: 'webhook', url: `https://${this.host}/paid` }] },
        });
        if (response !== null) {
          const { secret } = response.data.channels[0];
          truth.addSecret(secret);
          const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
          this.#webhook = { key, confirmedAtMs: scheduler.nowMs };
          return;
        }
        // A suspended process may still handle the request, as long as its signature is valid: a minute by its clock.
        const isPending = scheduler.nowMs - requestedAtMs > 30_000;
        await sleep(isPending ? 400_000 : 1_000, isPending ? 401_000 : 5_000);
      }
    });
  }

  async handleRequest(
    _method: string,
    _path: string,
    body: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<HostResponse | null> {
    const { scheduler, faults } = this.#world;
    if (!this.#isSigned(body, headers)) {
      return respond(401);
    }
    const { type, data } = JSON.parse(body) as WebhookBody;
    const event = type.replace('payment.', '') as EventType;
    const id = headers['webhook-id'] ?? '';
    const checked = data.payments.flatMap((payment) => this.#check(event, id, payment) ?? []);
    this.#checkMessage(event, id, data);
    if (faults.choose('shop is slow', 0.1, this.host)) {
      await scheduler.sleep(this.#random.exponential(8_000));
    }
    if (faults.choose('shop is silent', 0.05, this.host)) {
      return null;
    }
    if (faults.choose('shop has errors', 0.1, this.host)) {
      return respond(500);
    }
    if (faults.choose('shop asks to wait', 0.05, this.host)) {
      return respond(429, { 'retry-after': String(this.#random.integer(1, MAX_WAIT_SECONDS)) });
    }
    for (const { report } of checked) {
      report.acceptedAtMs.push(scheduler.nowMs);
    }
    const payments = checked.map(({ payment }) => payment);
    this.#accepted.getOrInsert(id, { atMs: scheduler.nowMs, payments });
    return respond(204);
  }

  acceptSocket(): number {
    return 404;
  }

  stop(): void {
    this.#world.history.add(this.actor, () => 'is gone');
    this.actor.die();
  }

  start(): void {
    if (!this.actor.isAlive) {
      this.actor = new Actor(this.actor.name);
      this.#world.history.add(this.actor, () => 'is back');
    }
  }

  /** Whether it was told about everything, and no reminder is due any more. */
  isComplete(): boolean {
    const { scheduler } = this.#world;
    return this.#listExpected().every(
      (payment) =>
        this.#wasTold(payment, scheduler.nowMs) &&
        this.#wasToldOfCollection(payment, scheduler.nowMs) &&
        this.#listReminders(payment).every(({ untilMs }) => untilMs < scheduler.nowMs),
    );
  }

  /** Checks at the end what must have arrived. */
  checkEnd(): void {
    const { scheduler, referee } = this.#world;
    const { nowMs } = scheduler;
    for (const payment of this.#listExpected()) {
      const { quoteId, listedAtMs } = payment;
      const paymentDueMs = this.#computeDueMs(listedAtMs ?? 0);
      if (paymentDueMs < nowMs && !this.#wasTold(payment, paymentDueMs)) {
        referee.report('shops are told of payments', `${this.host} of ${quoteId}`);
      }
      const collectionDueMs = this.#computeDueMs(referee.getListedAsIssuedMs(quoteId));
      if (collectionDueMs < nowMs && !this.#wasToldOfCollection(payment, collectionDueMs)) {
        referee.report('shops are told of collections', `${this.host} of ${quoteId}`);
      }
      for (const { fromMs, untilMs } of this.#listReminders(payment)) {
        const times = this.#reports.get(`deadline ${quoteId}`)?.acceptedAtMs ?? [];
        const isReminded = times.some((atMs) => atMs >= fromMs && atMs <= untilMs);
        if (untilMs < nowMs && !isReminded) {
          const text = `${this.host} of ${quoteId}, from ${fromMs} to ${untilMs} ms`;
          referee.report('shops are reminded of the deadline', text);
        }
      }
    }
  }

  #isSigned(body: string, headers: Readonly<Record<string, string>>): boolean {
    if (this.#webhook === null) {
      return false;
    }
    const content = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    const signature = createHmac('sha256', this.#webhook.key).update(content).digest('base64');
    return headers['webhook-signature'] === `v1,${signature}`;
  }

  /** Checks one payment of a message. */
  #check(event: EventType, id: string, reported: ReportedPayment) {
    const { truth, referee, history, scheduler, faults, health } = this.#world;
    const { paymentHash, amount, collectBy } = reported;
    const text = `${this.host}: ${event} of ${paymentHash}`;
    history.add(this.actor, () => `gets ${event} of ${paymentHash} in ${id}`);
    const payment = truth
      .paymentsOf(this.key.pubkey)
      .find(({ invoice }) => readPaymentHash(invoice.request) === paymentHash);
    if (payment === undefined || payment.invoice.amountSat !== amount) {
      referee.report('shops are told only of their payments', text);
      return null;
    }
    const { quoteId, issuedAtMs, invoice } = payment;
    referee.checkUpdate(this.key.pubkey, quoteId);
    if (event === 'collected' && issuedAtMs === null) {
      referee.report('shops are told only of real collections', text);
    }
    if (event === 'deadline') {
      const isOver = (collectBy ?? 0) + MAX_LATE_SECONDS < toUnixSeconds(scheduler.nowMs);
      const isWrong =
        faults.kinds.length === 0 && isKnownToIssueAfterExpiry(invoice.mint.switches.version);
      const mayBeLate = health.isDisturbed(scheduler.nowMs - MAX_SUSPENSION_MS);
      const isLate = isOver && !mayBeLate;
      if ((isLate && !referee.haveClockFaults) || isWrong) {
        referee.report('reminders only before a deadline', text);
      }
      const sentAfterMs = scheduler.nowMs - MAX_LATE_SECONDS * 1_000;
      if (referee.getListedAsIssuedMs(quoteId) < sentAfterMs && !mayBeLate) {
        referee.report('no reminders of what was collected', text);
      }
    }
    const report = this.#reports.getOrInsertComputed(`${event} ${quoteId}`, () => ({
      ids: new Set(),
      acceptedAtMs: [],
    }));
    report.ids.add(id);
    if (report.ids.size > (event === 'deadline' ? 2 : 1)) {
      referee.report('one webhook per event', `${text} in ${[...report.ids].join(' and ')}`);
    }
    return { report, payment };
  }

  #checkMessage(event: EventType, id: string, { amount, payments }: WebhookBody['data']): void {
    const { referee, scheduler, health, truth } = this.#world;
    const sum = payments.reduce((total, payment) => total + payment.amount, 0);
    const hashes = new Set(payments.map(({ paymentHash }) => paymentHash));
    const areDifferent = hashes.size === payments.length;
    const text = `${this.host}: ${event} of ${[...hashes].join(', ')} in ${id}`;
    const isSameType = this.#types.getOrInsert(id, event) === event;
    if (!isSameType || sum !== amount || payments.length === 0 || !areDifferent) {
      referee.report('right webhooks', text);
    }
    const [lastId, last] = [...this.#accepted].at(-1) ?? [];
    const earlier = this.#accepted.get(id);
    if (earlier !== undefined && referee.isCalm(earlier.atMs)) {
      referee.report('no webhook after it was accepted', text);
    }
    if (last === undefined || earlier !== undefined) {
      return;
    }
    // Then another message follows at once.
    const mayBeBehind = 4 * truth.paymentsOf(this.key.pubkey).length >= MAX_PER_MESSAGE;
    // If the answer was lost, the message is not needed any more, and the next one need not wait.
    const mayBeUnrecorded = last.payments.every(({ issuedAtMs }) => issuedAtMs !== null);
    // A suspended process, or one with a wrong clock, loses its claim.
    const mayBeEarly = mayBeBehind || mayBeUnrecorded || health.isDisturbed(last.atMs - CLAIM_MS);
    const driftMs = referee.haveClockFaults ? 2 * MAX_DRIFT_MS : 0;
    if (scheduler.nowMs - last.atMs < PAUSE_MS - driftMs && !mayBeEarly) {
      referee.report('at most one webhook a minute', `${text}, after ${lastId}`);
    }
  }

  /** Payments that the service has recorded after it had confirmed the webhook. */
  #listExpected(): Payment[] {
    const confirmedAtMs = this.#webhook?.confirmedAtMs ?? Number.POSITIVE_INFINITY;
    return this.#world.truth
      .paymentsOf(this.key.pubkey)
      .filter(({ listedAtMs, paidAtMs }) => listedAtMs !== null && paidAtMs > confirmedAtMs);
  }

  #hasAccepted(event: EventType, { quoteId }: Payment, untilMs: number): boolean {
    const times = this.#reports.get(`${event} ${quoteId}`)?.acceptedAtMs ?? [];
    return times.some((atMs) => atMs <= untilMs);
  }

  /** If an open wallet collects it at once, the shop is only told of that. */
  #wasTold(payment: Payment, untilMs: number): boolean {
    return (
      this.#hasAccepted('received', payment, untilMs) ||
      this.#hasAccepted('collected', payment, untilMs)
    );
  }

  #wasToldOfCollection(payment: Payment, untilMs: number): boolean {
    const isListed =
      this.#world.referee.getListedAsIssuedMs(payment.quoteId) < Number.POSITIVE_INFINITY;
    return !isListed || this.#hasAccepted('collected', payment, untilMs);
  }

  /**
   * When a message must have arrived: within a minute, plus the messages before it. With faults, a minute after them, plus
   * the pause after failures (a tenth of the outage), what the shop asked for, and the claim of a process that died.
   */
  #computeDueMs(sinceMs: number): number {
    const { referee, scheduler } = this.#world;
    const clockErrorMs = referee.haveClockFaults ? 300_000 : 0;
    if (referee.isCalm(sinceMs)) {
      return sinceMs + 60_000 + QUEUE_MS + clockErrorMs;
    }
    const endedAtMs = Math.min(referee.faultsEndedAtMs, scheduler.nowMs);
    const fromMs = Math.max(sinceMs, endedAtMs);
    return (
      fromMs +
      60_000 +
      QUEUE_MS +
      endedAtMs / 10 +
      MAX_WAIT_SECONDS * 1_000 +
      CLAIM_MS +
      clockErrorMs
    );
  }

  /** When the service must remind of a deadline, if nothing fails then: half of the time before, and ten minutes before. */
  #listReminders(payment: Payment): { fromMs: number; untilMs: number }[] {
    const { referee, faults } = this.#world;
    const { quoteId, issuedAtMs, invoice } = payment;
    const { mint } = invoice;
    const expiresAt = mint.state.quotes.byId.get(quoteId)?.expiresAt;
    const mayDiffer = faults.has('mint reports impossible states') || referee.haveClockFaults;
    if (!mint.switches.refusesAfterExpiry || mayDiffer || expiresAt === undefined) {
      return [];
    }
    const toVirtualMs = (unixSeconds: number) => (unixSeconds - toUnixSeconds(0)) * 1_000;
    const expiresAtMs = toVirtualMs(expiresAt);
    const paidAtMs = toVirtualMs(referee.getPaidAt(quoteId));
    return [(paidAtMs + expiresAtMs) / 2, expiresAtMs - 600_000]
      .map((atMs) => ({ fromMs: atMs - 2_000, untilMs: atMs + REMINDER_MS }))
      .filter(
        ({ fromMs, untilMs }) =>
          // Not just after the first message.
          fromMs > paidAtMs + PAUSE_MS &&
          untilMs < expiresAtMs &&
          (referee.isCalm(fromMs) || fromMs > this.#computeDueMs(0)) &&
          (issuedAtMs === null || issuedAtMs > untilMs),
      );
  }
}

function respond(status: number, headers: Record<string, string> = {}): HostResponse {
  return { status, headers, body: '' };
}

/** Between two messages. */
const PAUSE_MS = 60_000;

/** Until it is the turn of a message: one of each type may be before it. */
const QUEUE_MS = 3 * PAUSE_MS;

/** Four notifications of a payment at most. If more are due, the next message follows at once. */
const MAX_PER_MESSAGE = 100;

/** For longer than this, no process is suspended before it sends a message. */
const MAX_SUSPENSION_MS = 180_000;

/** The claim of a process that died. */
const CLAIM_MS = 31_000;

const MAX_WAIT_SECONDS = 30;

/** A request on its way. */
const MAX_LATE_SECONDS = 60;

/** The messages before it, and the time on the way. */
const REMINDER_MS = QUEUE_MS + 10_000;
