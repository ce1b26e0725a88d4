/** So many silent connections in a row are the mint's way, and no accident. */
const MAX_SILENT = 3;

/** So many reports before a poll, and none missing between them, are no accident either. */
const RESTORING_REPORTS = 3;

/**
 * Whether a mint's socket is relied on: not for a while after it proved silent again and again, and
 * before that time is over where it has told some news first. Pure: `now` is milliseconds since 1970.
 */
export class SocketTrust {
  readonly #distrustMs: number;
  /** Silent connections in a row. */
  #silent = 0;
  /** News in a row that the socket told before a poll did. */
  #toldFirst = 0;
  #distrustedUntil = 0;

  /** @param distrustMs how long trust is lost for */
  constructor(distrustMs: number) {
    this.#distrustMs = distrustMs;
  }

  isTrusted(now: number): boolean {
    // Where the clock was set back, the time begins anew and is not stretched.
    this.#distrustedUntil = Math.min(this.#distrustedUntil, now + this.#distrustMs);
    return now >= this.#distrustedUntil;
  }

  /**
   * The socket did not tell what a poll has told.
   *
   * @returns whether to try another connection; not while the socket is not relied on anyway
   */
  foundSilent(now: number): boolean {
    this.#toldFirst = 0;
    if (!this.isTrusted(now)) {
      return false;
    }
    this.#silent += 1;
    if (this.#silent >= MAX_SILENT) {
      this.#distrustedUntil = now + this.#distrustMs;
    }
    return true;
  }

  /** The socket told news of a quote before a poll did. */
  toldFirst(): void {
    this.#toldFirst += 1;
    if (this.#toldFirst >= RESTORING_REPORTS) {
      this.#silent = 0;
      this.#distrustedUntil = 0;
    }
  }
}
