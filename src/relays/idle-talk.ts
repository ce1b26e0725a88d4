/**
 * What a relay may say between two useful answers. A NOTICE with each event that is turned away, late
 * answers to everything that waited, and a ping a second come nowhere near.
 */
const MAX_MESSAGES = 256;
const MAX_BYTES = 512 * 1024;

/** What a relay has said that answers nothing, since it last said something useful. */
export class IdleTalk {
  #messages = 0;
  #bytes = 0;

  /** Counts a message; false where it is one too many. */
  isBearable(bytes: number): boolean {
    this.#messages += 1;
    this.#bytes += bytes;
    return this.#messages <= MAX_MESSAGES && this.#bytes <= MAX_BYTES;
  }

  /** It has said something useful. */
  forgive(): void {
    this.#messages = 0;
    this.#bytes = 0;
  }
}
