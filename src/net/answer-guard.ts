import type { Dispatcher } from 'undici';

/** The `code` of the error that an answer of too many bytes is cut off with. */
export const TOO_LARGE_ANSWER = 'ETOOLARGEANSWER';

/** The `code` of the error that a compressed answer is cut off with. */
export const COMPRESSED_ANSWER = 'ECOMPRESSEDANSWER';

/** What each piece of a body costs beside its bytes: pieces of one byte fill memory just as well. */
const PIECE_OVERHEAD_BYTES = 256;

/** Answers before the answer (RFC 9110 section 15.2): hosts send none or one. */
const MAX_INTERIM_ANSWERS = 8;

type Controller = Dispatcher.DispatchController;

/**
 * Bounds what answers cost while they come. One that is too large is cut off; where all of them
 * together are, the one that has been coming for longest: an honest one is here in a moment. So is a
 * compressed one: nobody asked for it, and a few kB could unpack to gigabytes.
 */
export class AnswerGuard {
  readonly #maxBytesHeld: number;
  #bytesHeld = 0;
  /** By the request's controller; the body that began first is first. */
  readonly #coming = new Map<Controller, number>();

  /** @param maxBytesHeld of all answers that are still coming */
  constructor(maxBytesHeld: number) {
    this.#maxBytesHeld = maxBytesHeld;
  }

  /**
   * Watches the answer of a request.
   *
   * @param maxBodyBytes of this answer
   */
  watch(maxBodyBytes: number): Dispatcher.DispatcherComposeInterceptor {
    let interimAnswers = 0;
    return (dispatch) => (options, handler) =>
      dispatch(options, {
        onRequestStart: (...args) => handler.onRequestStart?.(...args),
        onResponseStart: (controller, status, headers, statusMessage) => {
          interimAnswers += status < 200 ? 1 : 0;
          if (interimAnswers > MAX_INTERIM_ANSWERS) {
            controller.abort(guardError(TOO_LARGE_ANSWER));
          } else if (isCompressed(headers)) {
            controller.abort(guardError(COMPRESSED_ANSWER));
          } else {
            handler.onResponseStart?.(controller, status, headers, statusMessage);
          }
        },
        onResponseData: (controller, piece) => {
          this.#hold(controller, piece.byteLength + PIECE_OVERHEAD_BYTES, maxBodyBytes);
          handler.onResponseData?.(controller, piece);
        },
        onResponseEnd: (controller, trailers) => {
          this.#release(controller);
          handler.onResponseEnd?.(controller, trailers);
        },
        onResponseError: (controller, error) => {
          this.#release(controller);
          handler.onResponseError?.(controller, error);
        },
      });
  }

  #hold(controller: Controller, bytes: number, maxBodyBytes: number): void {
    const held = (this.#coming.get(controller) ?? 0) + bytes;
    this.#coming.set(controller, held);
    this.#bytesHeld += bytes;
    if (held > maxBodyBytes) {
      controller.abort(guardError(TOO_LARGE_ANSWER));
    }
    const [longest] = this.#coming.keys();
    if (this.#bytesHeld > this.#maxBytesHeld) {
      longest?.abort(guardError(TOO_LARGE_ANSWER));
    }
  }

  #release(controller: Controller): void {
    this.#bytesHeld -= this.#coming.get(controller) ?? 0;
    this.#coming.delete(controller);
  }
}

function isCompressed(headers: Record<string, string | string[] | undefined>): boolean {
  const encoding = String(headers['content-encoding'] ?? '').trim();
  return encoding !== '' && encoding.toLowerCase() !== 'identity';
}

function guardError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error('the answer was cut off'), { code });
}
