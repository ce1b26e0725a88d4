/** The `code` of the error that an answer of too many bytes is cut off with. */
export const TOO_LARGE_ANSWER = 'ETOOLARGEANSWER';

/** The `code` of the error that a compressed answer is cut off with. */
export const COMPRESSED_ANSWER = 'ECOMPRESSEDANSWER';

/** What each piece of a body costs beside its bytes: pieces of one byte fill memory just as well. */
const PIECE_OVERHEAD_BYTES = 256;

/** An answer whose body is coming. */
interface Coming {
  /** Ends it, with an error of this `code`. */
  cutOff(code: string): void;
}

/**
 * Bounds what answers hold while they come. One that is too large is cut off; where all of them
 * together are, the one that has been coming for longest: an honest one is here in a moment.
 */
export class AnswerGuard {
  readonly #maxBytesHeld: number;
  #bytesHeld = 0;
  /** The body that began first is first. */
  readonly #coming = new Map<Coming, number>();

  /** @param maxBytesHeld of all answers that are still coming */
  constructor(maxBytesHeld: number) {
    this.#maxBytesHeld = maxBytesHeld;
  }

  /**
   * Counts a piece of a body.
   *
   * @param maxBytes of this answer
   */
  hold(answer: Coming, pieceBytes: number, maxBytes: number): void {
    const bytes = pieceBytes + PIECE_OVERHEAD_BYTES;
    const held = (this.#coming.get(answer) ?? 0) + bytes;
    this.#coming.set(answer, held);
    this.#bytesHeld += bytes;
    if (held > maxBytes) {
      answer.cutOff(TOO_LARGE_ANSWER);
    }
    if (this.#bytesHeld > this.#maxBytesHeld) {
      const [longest] = this.#coming.keys();
      longest?.cutOff(TOO_LARGE_ANSWER);
    }
  }

  /** Counts an answer no longer: it has come, or does not come any more. */
  release(answer: Coming): void {
    this.#bytesHeld -= this.#coming.get(answer) ?? 0;
    this.#coming.delete(answer);
  }
}
