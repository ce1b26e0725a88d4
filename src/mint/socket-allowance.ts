/**
 * Sockets to mints that one process holds. Strangers choose the mints' urls, and each socket costs a
 * file descriptor and, with its quotes, 10 to 200 kB; a mint that gets none is polled all the same.
 */
export const MAX_MINT_SOCKETS = 2_000;

/** Bounds how many sockets there are to all mints together. */
export class SocketAllowance {
  #left: number;

  /** @param max sockets at one time */
  constructor(max: number) {
    this.#left = max;
  }

  /** Takes the place of one socket; false where there is none. */
  take(): boolean {
    if (this.#left === 0) {
      return false;
    }
    this.#left -= 1;
    return true;
  }

  /** Gives back a place that was taken. */
  giveBack(): void {
    this.#left += 1;
  }
}
