/**
 * Messages in a run, of the 20 that Nutshell allows. The rest is for others who ask from our address,
 * and for a message that was under way when its minute was thought to be over.
 */
const RUN_LENGTH = 16;

export interface MessageBudgetOptions {
  /** Messages that may go at once. */
  burst: number;
  /** Time in which one more is earned. */
  refillMs: number;
  /** How long a mint is left alone that has refused a message. */
  refusalRestMs: number;
  /** What ends a run: so long without a message. */
  quietMs: number;
}

/**
 * When a message may go to one mint's socket. Pure: `now` is milliseconds since 1970.
 *
 * Opening a socket counts as a message. At first the budget is a bucket, which serves each new quote
 * at once: in no minute does it give more than burst + 60 s / refill. Once the mint has refused a
 * message, it is a series of runs, with a quiet minute before each.
 */
export class MessageBudget {
  readonly #options: MessageBudgetOptions;
  readonly #bucket: TokenBucket;
  /** Null as long as the mint never refused a message. */
  #runs: MessageRuns | null = null;

  constructor(options: MessageBudgetOptions) {
    this.#options = options;
    this.#bucket = new TokenBucket(options);
  }

  /**
   * @param messages so many, one soon after the other
   * @returns 0 where they may go now, else the milliseconds after which to ask again
   */
  waitMs(now: number, messages = 1): number {
    return (this.#runs ?? this.#bucket).waitMs(now, messages);
  }

  /**
   * Takes leave to send one message.
   *
   * @returns 0 where it may go now, else nothing is taken, and it is {@link waitMs}
   */
  take(now: number): number {
    const waitMs = this.waitMs(now);
    if (waitMs === 0) {
      (this.#runs ?? this.#bucket).take(now);
    }
    return waitMs;
  }

  /** The mint answered a message: it had counted it by now. */
  answered(now: number): void {
    this.#runs?.answered(now);
  }

  /** The mint refused a message because there were too many. */
  refused(now: number): void {
    this.#runs ??= new MessageRuns(this.#options);
    this.#runs.refused(now);
  }
}

/** What is not used is saved, up to the burst. */
class TokenBucket {
  readonly #burst: number;
  readonly #refillMs: number;
  #tokens: number;
  #countedAt = 0;

  constructor({ burst, refillMs }: MessageBudgetOptions) {
    this.#burst = burst;
    this.#refillMs = refillMs;
    this.#tokens = burst;
  }

  waitMs(now: number, messages: number): number {
    const earned = Math.max(0, now - this.#countedAt) / this.#refillMs;
    this.#tokens = Math.min(this.#burst, this.#tokens + earned);
    this.#countedAt = now;
    return Math.max(0, Math.ceil((messages - this.#tokens) * this.#refillMs));
  }

  take(): void {
    this.#tokens -= 1;
  }
}

/**
 * At most {@link RUN_LENGTH} messages until there was a quiet minute. Nutshell counts 20 a minute,
 * and each message, refused or not, makes it start the minute anew: so its limit is not one of pace,
 * but of what comes between two quiet minutes.
 *
 * The first messages of a run follow each other closely, for a mint with few quotes. The gaps grow
 * up to the bucket's refill time, to gather what comes meanwhile: a steady stream of quotes would
 * else use up a run in a moment, and be without one for most of the time.
 */
class MessageRuns {
  readonly #options: MessageBudgetOptions;
  /** Messages of this run. */
  #sent = 0;
  #sentAt = 0;
  /** The last message or answer: time on the way does not shorten the quiet minute. */
  #touchedAt = 0;
  /** What ends this run. */
  #quietMs: number;

  constructor(options: MessageBudgetOptions) {
    this.#options = options;
    this.#quietMs = options.quietMs;
  }

  waitMs(now: number, messages: number): number {
    this.#noticeTime(now);
    return Math.max(0, Math.ceil(this.#readyAt(messages) - now));
  }

  take(now: number): void {
    this.#sent += 1;
    this.#sentAt = now;
    this.#touchedAt = now;
  }

  answered(now: number): void {
    this.#noticeTime(now);
    this.#touchedAt = now;
  }

  refused(now: number): void {
    this.#sent = RUN_LENGTH;
    this.#touchedAt = now;
    this.#quietMs = this.#options.refusalRestMs;
  }

  #readyAt(messages: number): number {
    const { burst, refillMs } = this.#options;
    return this.#sent + messages <= RUN_LENGTH
      ? this.#sentAt + refillMs * Math.min(1, this.#sent / burst)
      : this.#touchedAt + this.#quietMs;
  }

  #noticeTime(now: number): void {
    // Where the clock was set back, waits begin anew and are not stretched.
    this.#sentAt = Math.min(this.#sentAt, now);
    this.#touchedAt = Math.min(this.#touchedAt, now);
    if (now - this.#touchedAt >= this.#quietMs) {
      this.#sent = 0;
      this.#quietMs = this.#options.quietMs;
    }
  }
}
