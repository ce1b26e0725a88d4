import type { Event, Filter } from 'nostr-tools';
import { matchFilter } from 'nostr-tools/filter';
import type { EventVerifier } from '../auth/event-verifier.ts';
import type { RelayRefusal } from '../domain/relay-word.ts';
import type { PublishAnswer } from './publish-answer.ts';
import type { PassingTrouble } from './relay-auth.ts';

/** One thing that a relay is asked, from the asking to its end. */
abstract class RelayExchange<Answer> {
  /** The text that is sent for it. */
  readonly message: string;
  /** Resolves once it has ended. */
  readonly answer: Promise<Answer>;
  timer: NodeJS.Timeout | undefined;
  /** As counted by the connection when it was sent. */
  sentAfter = { answers: 0, grants: 0 };
  /** Waits for AUTH, to be sent once more. */
  isWaiting = false;
  wasSentAgain = false;
  readonly #resolve: (answer: Answer) => void;

  constructor(message: string) {
    this.message = message;
    const { promise, resolve } = Promise.withResolvers<Answer>();
    this.answer = promise;
    this.#resolve = resolve;
  }

  /** Ends it. */
  settle(answer: Answer): void {
    clearTimeout(this.timer);
    this.#resolve(answer);
  }

  /** Ends it with what is known, because nothing more comes. */
  abstract leave(): void;

  /**
   * Ends it because it was turned away.
   *
   * @param trouble what kept AUTH from changing that, for now; null: it is the relay's last word
   */
  abstract turnAway(trouble: PassingTrouble | null): void;
}

/** An event that is to be published. */
export class Publication extends RelayExchange<PublishAnswer> {
  readonly id: string;
  /** What the relay said when it turned it away; AUTH may change its mind. */
  refusal: { refusal: RelayRefusal; word: string } = { refusal: 'other', word: '' };

  constructor(event: { id: string; text: string }) {
    super(`["EVENT",${event.text}]`);
    this.id = event.id;
  }

  override leave(): void {
    this.settle({ outcome: 'unanswered' });
  }

  override turnAway(trouble: PassingTrouble | null): void {
    const { refusal, word } = this.refusal;
    this.settle({
      outcome: 'refused',
      refusal: trouble?.refusal ?? refusal,
      word: trouble?.word ?? word,
    });
  }
}

/** A query for stored events. */
export class Query extends RelayExchange<Event[] | null> {
  readonly id: string;
  readonly #filter: Filter;
  readonly #limit: number;
  readonly #verifyEvent: EventVerifier;
  readonly #found = new Map<string, Event>();

  constructor(id: string, filter: Filter, options: { limit: number; verifyEvent: EventVerifier }) {
    super(JSON.stringify(['REQ', id, { ...filter, limit: options.limit }]));
    this.id = id;
    this.#filter = filter;
    this.#limit = options.limit;
    this.#verifyEvent = options.verifyEvent;
  }

  get isFull(): boolean {
    return this.#found.size >= this.#limit;
  }

  /** Takes an event of the answer; false where it is not what was asked for, or forged. */
  take(event: Event): boolean {
    const isGood =
      !this.#found.has(event.id) && matchFilter(this.#filter, event) && this.#verifyEvent(event);
    if (isGood) {
      this.#found.set(event.id, event);
    }
    return isGood;
  }

  /** Ends it with what came, which is all there is. */
  finish(): void {
    this.settle([...this.#found.values()]);
  }

  override leave(): void {
    this.settle(this.#found.size > 0 ? [...this.#found.values()] : null);
  }

  override turnAway(): void {
    this.leave();
  }
}
