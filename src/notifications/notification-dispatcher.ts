import { randomUUID } from 'node:crypto';
import { type BackgroundJob, createDatabaseJob } from '../background-job.ts';
import { transaction, tryTransaction } from '../database/transaction.ts';
import { KeyedCounter } from '../keyed-counter.ts';
import { type Logger, logMilestone } from '../log.ts';
import { SerialQueue } from '../serial-queue.ts';
import { waitAtMost } from '../wait-at-most.ts';
import {
  computeChannelUpdate,
  type DeliveryResult,
  getMaxInFlight,
  toSiteKey,
} from './delivery-policy.ts';
import { NOTIFICATION_LIMITS } from './limits.ts';
import type { NotificationContext } from './notification-context.ts';
import {
  addNotifications,
  claimDueChannels,
  type DueChannel,
  listDueNotifications,
  recordMessage,
  releaseChannel,
  saveNotificationChanges,
} from './outbox-store.ts';
import { planReminders } from './plan-notifications.ts';
import { type Message, selectMessage } from './select-message.ts';
import { sendMessage } from './send-message.ts';

/** Sends due notifications to many channels at once, so that a slow server does not delay the others. */
export class NotificationDispatcher {
  readonly #context: NotificationContext;
  readonly #scanJob: BackgroundJob;
  readonly #activeDeliveries = new Set<Promise<void>>();
  readonly #inFlightByGroup = new KeyedCounter();
  /** Deliveries use the database one after the other: recording payments must not wait for hundreds of them. */
  readonly #databaseWork = new SerialQueue();

  constructor(context: NotificationContext) {
    this.#context = context;
    const work = (signal: AbortSignal) => this.#startDueDeliveries(signal);
    const message = 'sending notifications failed';
    const failure = { event: 'notification_delivery_failed', message };
    const { scanIntervalMs } = NOTIFICATION_LIMITS;
    this.#scanJob = createDatabaseJob({ work, intervalMs: scanIntervalMs }, failure, context);
  }

  start(): void {
    this.#scanJob.start();
  }

  /** Ends when the deliveries in progress have ended, but within a second. Other processes send what is left. */
  async stop(): Promise<void> {
    await this.#scanJob.stop();
    await waitAtMost(900, Promise.all(this.#activeDeliveries));
    await this.#context.nostr?.close();
  }

  async #startDueDeliveries(signal: AbortSignal): Promise<void> {
    const { db, clock } = this.#context;
    const busyGroups = new Set<string>();
    let claimed: DueChannel[];
    do {
      const { maxInFlight, maxClaimed } = NOTIFICATION_LIMITS;
      const limit = Math.min(maxInFlight - this.#activeDeliveries.size, maxClaimed);
      claimed = await claimDueChannels(db, clock(), { limit, busyGroups: [...busyGroups] });
      for (const channel of claimed) {
        if (this.#tryAcquireGroup(channel)) {
          this.#startDelivery(channel);
        } else {
          busyGroups.add(getGroup(channel));
          await this.#release(channel);
        }
      }
    } while (claimed.length > 0 && !signal.aborted);
  }

  #tryAcquireGroup(channel: DueChannel): boolean {
    const group = getGroup(channel);
    const { site } = channel;
    const isBusy = this.#inFlightByGroup.get(group) >= getMaxInFlight(site);
    if (isBusy || this.#hasReachedLimit(site)) {
      return false;
    }
    this.#inFlightByGroup.increment(group);
    return true;
  }

  #hasReachedLimit(site: string | null): boolean {
    if (site === null) {
      return false;
    }
    const { key, factor } = toSiteKey(site);
    const { perSiteAndMinute } = NOTIFICATION_LIMITS;
    return this.#context.siteLimiter.getCount(key) >= perSiteAndMinute * factor;
  }

  #startDelivery(channel: DueChannel): void {
    const delivery = this.#deliver(channel)
      .catch((error) => this.#scanJob.reportFailure(error))
      .finally(() => {
        this.#activeDeliveries.delete(delivery);
        this.#inFlightByGroup.decrement(getGroup(channel));
      });
    this.#activeDeliveries.add(delivery);
  }

  async #deliver(channel: DueChannel): Promise<void> {
    const { db, siteLimiter, onSent, clock, log } = this.#context;
    const newId = `msg_${randomUUID()}`;
    const selected = await this.#databaseWork.run(async () => {
      const due = await listDueNotifications(db, channel.id, clock());
      const { message, changes, isBehind } = selectMessage(due, { nowMs: clock(), newId });
      const reminders = message === null ? [] : planReminders(message, channel.id, clock());
      // All or nothing: reminders are added only with a new message.
      const isSaved = await tryTransaction(db, async (tx) => {
        const wereDue = await saveNotificationChanges(tx, channel.id, changes);
        await addNotifications(tx, wereDue ? reminders : []);
        return wereDue;
      });
      return isSaved ? { message, isBehind } : null;
    });
    if (selected === null) {
      // This process was suspended, and another one has sent the message. Or the recipient has removed the channel.
      return;
    }
    const { message, isBehind } = selected;
    // Counted only now, because often nothing is to be sent.
    const { site } = channel;
    const isLimited = () => site !== null && siteLimiter.consume([toSiteKey(site)]) !== null;
    if (message === null || isLimited()) {
      await this.#release(channel);
      return;
    }
    const result = await sendMessage(this.#context, channel, message);
    onSent(channel.kind, result.outcome);
    const nowMs = clock();
    const update = computeChannelUpdate(channel, result, { nowMs, isBehind });
    const sent = {
      ...update,
      messageId: message.id,
      notificationIds: message.notifications.map(({ id }) => id),
      isDelivered: result.outcome === 'delivered',
      result: result.text,
      nowMs,
    };
    await this.#databaseWork.run(() =>
      transaction(db, (tx) => recordMessage(tx, channel.id, sent)),
    );
    logDelivery(log, channel, message, result, update.isDisabled);
  }

  /** Ends a claim without an attempt. The next scan continues. */
  async #release({ id }: DueChannel): Promise<void> {
    const { db, clock } = this.#context;
    const notBeforeMs = clock() + NOTIFICATION_LIMITS.scanIntervalMs;
    await transaction(db, (tx) => releaseChannel(tx, id, notBeforeMs));
  }
}

/** Channels that share a limit: those to a site, and all Nostr messages, each of which goes to several sites. */
function getGroup({ site, kind }: DueChannel): string {
  return site ?? kind;
}

function logDelivery(
  log: Logger,
  { kind, site }: DueChannel,
  { id, type, notifications }: Message,
  { outcome, text }: DeliveryResult,
  isDisabled: boolean,
): void {
  const detail = { channel: kind, ...(site !== null && { site }), message: id, type };
  if (outcome === 'delivered') {
    for (const { paymentHash } of notifications) {
      logMilestone(log, 'notified', paymentHash, detail);
    }
  } else if (isDisabled) {
    log.info(
      { event: 'notification_channel_disabled', ...detail, reason: text },
      'notification channel has failed for a week or is gone; no longer using it',
    );
  } else {
    log.debug(
      { event: 'notification_rejected', ...detail, reason: text },
      'channel does not accept notifications; backing off',
    );
  }
}
