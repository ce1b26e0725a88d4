import { makeAuthEvent } from 'nostr-tools/nip42';
import type { EventSigner } from '../auth/event-signer.ts';
import { type Clock, toUnixSeconds } from '../domain/clock.ts';
import { isPassing, readRelayWord } from '../domain/relay-word.ts';
import { lookAfter } from '../net/socket-message.ts';
import type { RelayTiming } from './relay-timing.ts';

/** A relay may ask again when its patience ends; one that asks on and on is not answered. */
const MAX_AUTHS = 4;

/** What came of AUTH in a moment of trouble, in the words of the relay where it had any. */
export interface PassingTrouble {
  refusal: 'error' | 'rate_limited';
  /** Null where it said nothing. */
  word: string | null;
}

/**
 * What is the matter with AUTH, on which something waits.
 *
 * - `granted`
 * - `refused`: the relay does not want the signer.
 * - {@link PassingTrouble}: the relay could not answer, or did not, or sent no challenge in time.
 */
export type AuthEnd = 'granted' | 'refused' | PassingTrouble;

/** See {@link RelayAuth.outlook}. */
export type AuthOutlook = 'now' | 'later' | 'never' | PassingTrouble;

/**
 * - `unasked`: the relay has sent no challenge.
 * - `awaited`: it wants AUTH and has sent no challenge yet.
 * - `under_way`: its challenge is answered, and it has not said what it thinks of that.
 */
type State = 'unasked' | 'awaited' | 'under_way' | AuthEnd;

/** The relay had nothing to say in time. */
export const SILENCE: PassingTrouble = { refusal: 'error', word: null };

/** AUTH on one connection (NIP-42): each challenge is answered as it comes, by the signer's key. */
export class RelayAuth {
  readonly #url: string;
  readonly #signer: EventSigner | null;
  readonly #clock: Clock;
  readonly #timing: RelayTiming;
  readonly #send: (message: string) => void;
  readonly #onSettled: (end: AuthEnd) => void;
  #state: State = 'unasked';
  #timer: NodeJS.Timeout | undefined;
  #challenge = '';
  /** Of the answer that is under way. */
  #eventId = '';
  #auths = 0;
  #grants = 0;

  /** @param parts.onSettled told when those who wait for AUTH need not wait any longer */
  constructor(parts: {
    url: string;
    signer: EventSigner | null;
    clock: Clock;
    timing: RelayTiming;
    send: (message: string) => void;
    onSettled: (end: AuthEnd) => void;
  }) {
    this.#url = parts.url;
    this.#signer = parts.signer;
    this.#clock = parts.clock;
    this.#timing = parts.timing;
    this.#send = parts.send;
    this.#onSettled = parts.onSettled;
  }

  /** How often AUTH was granted on this connection. */
  get grants(): number {
    return this.#grants;
  }

  /** Whether a challenge came, so that it is not too late for one. */
  get isAsked(): boolean {
    return this.#challenge !== '';
  }

  /** Answers a challenge; false where it is one too many, or nobody is there to sign. */
  takeChallenge(challenge: string): boolean {
    if (this.#signer === null || challenge === this.#challenge || this.#auths >= MAX_AUTHS) {
      return false;
    }
    this.#auths += 1;
    this.#challenge = challenge;
    const event = this.#signer.sign({
      ...makeAuthEvent(this.#url, challenge),
      created_at: toUnixSeconds(this.#clock()),
    });
    this.#eventId = event.id;
    this.#enter('under_way', this.#timing.answerTimeoutMs);
    this.#send(JSON.stringify(['AUTH', event]));
    return true;
  }

  /** Takes the OK of an AUTH; false where the id is not of the one that is under way. */
  takeAnswer(ok: { id: string; isAccepted: boolean; message: string }): boolean {
    if (this.#state !== 'under_way' || ok.id !== this.#eventId) {
      return false;
    }
    this.#settle(ok.isAccepted ? 'granted' : refusalOf(ok.message));
    return true;
  }

  /**
   * What becomes of a message that was turned away because AUTH lacks: it is worth sending again
   * `now`, or it may be `later`, when AUTH is settled, or it is not, for good or because of a trouble.
   *
   * @param grantsBefore {@link grants} when it was sent
   * @param isCertain the relay said that it is for AUTH
   */
  outlook(grantsBefore: number, isCertain: boolean): AuthOutlook {
    if (this.#signer === null) {
      return 'never';
    }
    if (this.#state === 'unasked' && isCertain) {
      this.#enter('awaited', this.#timing.challengeTimeoutMs);
    }
    switch (this.#state) {
      case 'awaited':
      case 'under_way':
        return 'later';
      case 'granted':
        return this.#grants > grantsBefore ? 'now' : 'never';
      case 'unasked':
      case 'refused':
        return 'never';
      default:
        return this.#state;
    }
  }

  /** Tells nobody anything any more. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #enter(state: 'awaited' | 'under_way', timeoutMs: number): void {
    clearTimeout(this.#timer);
    this.#state = state;
    const timer = lookAfter(timeoutMs, () => {
      // Just before, the relay may have been read at last.
      if (this.#timer === timer) {
        this.#settle(SILENCE);
      }
    });
    this.#timer = timer;
  }

  #settle(end: AuthEnd): void {
    this.end();
    this.#state = end;
    this.#grants += end === 'granted' ? 1 : 0;
    this.#onSettled(end);
  }
}

/** What it means that an AUTH was turned away with these words. */
function refusalOf(message: string): AuthEnd {
  const { meaning, word } = readRelayWord(message);
  return isPassing(meaning) ? { refusal: meaning, word } : 'refused';
}
