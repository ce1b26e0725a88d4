import type { Dispatcher } from 'undici';
import { type AnswerGuard, COMPRESSED_ANSWER, TOO_LARGE_ANSWER } from './answer-guard.ts';

/** Answers before the answer (RFC 9110 section 15.2): hosts send none or one. */
const MAX_INTERIM_ANSWERS = 8;

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** An answer that has come. */
interface WholeAnswer {
  status: number;
  headers: Headers;
  text: string;
}

/**
 * A request that is under way and its answer, as undici tells of it, gathered as text. One that is too
 * large is cut off ({@link AnswerGuard}). So is a compressed one: nobody asked for it, and a few kB could
 * unpack to gigabytes.
 *
 * It hears the dispatcher itself: what undici's `request` puts around that, a stream above all, takes
 * longer than all else that becomes of a mint's short answer.
 */
export class ComingAnswer implements Dispatcher.DispatchHandler {
  readonly #guard: AnswerGuard;
  readonly #maxBodyBytes: number;
  readonly #whole = Promise.withResolvers<WholeAnswer>();
  #controller: Controller | null = null;
  #givenUpFor: Error | null = null;
  #interimAnswers = 0;
  #status = 0;
  #headers: Headers = {};
  readonly #pieces: Buffer[] = [];

  constructor(guard: AnswerGuard, maxBodyBytes: number) {
    this.#guard = guard;
    this.#maxBodyBytes = maxBodyBytes;
  }

  /** Fails with what the connection, the host or {@link giveUp} says. */
  get whole(): Promise<WholeAnswer> {
    return this.#whole.promise;
  }

  /** Whether something of the request may have been written: an earlier failure is none of the host's. */
  get isBegun(): boolean {
    return this.#controller !== null;
  }

  /** Ends it; where the request waits for a connection, as soon as it has one. */
  giveUp(reason: Error): void {
    this.#givenUpFor = reason;
    this.#controller?.abort(reason);
  }

  /** See {@link AnswerGuard}. */
  cutOff(code: string): void {
    this.#controller?.abort(Object.assign(new Error('the answer was cut off'), { code }));
  }

  /** Right before the request is written to its connection. */
  onRequestStart(controller: Controller): void {
    if (this.#givenUpFor === null) {
      this.#controller = controller;
    } else {
      controller.abort(this.#givenUpFor);
    }
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    this.#status = status;
    this.#headers = headers;
    this.#interimAnswers += status < 200 ? 1 : 0;
    if (this.#interimAnswers > MAX_INTERIM_ANSWERS) {
      this.cutOff(TOO_LARGE_ANSWER);
    } else if (isCompressed(headers)) {
      this.cutOff(COMPRESSED_ANSWER);
    }
  }

  onResponseData(_controller: Controller, piece: Buffer): void {
    this.#pieces.push(piece);
    this.#guard.hold(this, piece.byteLength, this.#maxBodyBytes);
  }

  onResponseEnd(): void {
    this.#guard.release(this);
    const text = textOf(this.#pieces);
    this.#whole.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    this.#guard.release(this);
    this.#whole.reject(error);
  }
}

/** Takes a byte order mark away, as JSON is not to have one (RFC 8259 section 8.1). */
const UTF_8 = new TextDecoder();

function textOf(pieces: readonly Buffer[]): string {
  const [only] = pieces;
  return UTF_8.decode(pieces.length === 1 ? only : Buffer.concat(pieces));
}

function isCompressed(headers: Headers): boolean {
  const encoding = String(headers['content-encoding'] ?? '').trim();
  return encoding !== '' && encoding.toLowerCase() !== 'identity';
}
