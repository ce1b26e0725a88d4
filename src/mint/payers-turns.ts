import { MAX_CONNECTIONS_PER_HOST, MAX_IN_FLIGHT_PER_HOST } from '../net/guarded-fetch.ts';
import { remoteParty } from '../net/remote-party.ts';
import type { Payment } from './mint-shares.ts';

/** Half of our connections to a mint: a flood leaves the others to everybody else. */
const AT_A_TIME = MAX_CONNECTIONS_PER_HOST / 2;

/**
 * Running and waiting: many pay a popular recipient in the same moment, and each would be turned away
 * without a line. It takes nothing from others, who wait in lines of their own.
 */
const MOST_IN_LINE = MAX_IN_FLIGHT_PER_HOST * 4;

/** So long a payer waits for its turn; the mint's answer takes its time, and wallets give up. */
export const PATIENCE_MS = 5_000;

/** Who asks for an invoice, in its place behind others. */
export interface Turn {
  readonly isBegun: boolean;
  /** Whether it began before patience ended. */
  readonly begins: Promise<boolean>;
  /** Leaves the line, whether or not the turn had begun. */
  end(): void;
}

/** Those who have a claimant in common. */
interface Line {
  running: number;
  readonly waiting: Set<WaitingTurn>;
}

/** A line that a turn is part of, and what is allowed of it. */
interface Place {
  key: string;
  atATime: number;
  mostInLine: number;
}

/** What {@link PayersTurns} knows of a turn that has not begun. */
interface WaitingTurn {
  places: readonly Place[];
  begin(): void;
}

/**
 * Whose request to a mint has one of our connections, so that a flood leaves others a free one where
 * answers are slow: at most half of them are with one recipient and with one network, and of those
 * half with one network that pays one recipient. The rest waits in line, which is bounded in length
 * and in time.
 */
export class PayersTurns {
  readonly #isBounded: boolean;
  readonly #allowPrivateNetworks: boolean;
  readonly #lines = new Map<string, Line>();

  /**
   * @param options.isBounded false: everybody's turn begins at once
   * @param options.allowPrivateNetworks see {@link remoteParty}: who shares connections shares turns
   */
  constructor(options: { isBounded: boolean; allowPrivateNetworks: boolean }) {
    this.#isBounded = options.isBounded;
    this.#allowPrivateNetworks = options.allowPrivateNetworks;
  }

  /** Takes the next place; null where the line is full. */
  lineUp(mintUrl: string, payment: Payment): Turn | null {
    const places = this.#isBounded ? this.#placesOf(mintUrl, payment) : [];
    if (places.some((place) => this.#isLineFull(place))) {
      return null;
    }
    return this.#hasRoom(places) ? this.#begun(places) : this.#waiting(places);
  }

  #begun(places: readonly Place[]): Turn {
    this.#run(places);
    return { isBegun: true, begins: Promise.resolve(true), end: () => this.#stop(places) };
  }

  #waiting(places: readonly Place[]): Turn {
    const { promise: begins, resolve } = Promise.withResolvers<boolean>();
    let isBegun = false;
    const leave = () => {
      clearTimeout(patience);
      for (const { key } of places) {
        this.#lineOf(key).waiting.delete(waiting);
        this.#forgetIfEmpty(key);
      }
    };
    const giveUp = () => {
      leave();
      resolve(false);
    };
    const waiting: WaitingTurn = {
      places,
      begin: () => {
        isBegun = true;
        this.#run(places);
        leave();
        resolve(true);
      },
    };
    const patience = setTimeout(giveUp, PATIENCE_MS);
    for (const { key } of places) {
      this.#lineOf(key).waiting.add(waiting);
    }
    return {
      get isBegun() {
        return isBegun;
      },
      begins,
      end: () => (isBegun ? this.#stop(places) : giveUp()),
    };
  }

  #placesOf(mintUrl: string, { recipient, network }: Payment): Place[] {
    const options = { allowPrivateNetworks: this.#allowPrivateNetworks };
    const party = remoteParty(new URL(mintUrl), options);
    const whole = { atATime: AT_A_TIME, mostInLine: MOST_IN_LINE };
    const half = { atATime: AT_A_TIME / 2, mostInLine: MOST_IN_LINE / 2 };
    return [
      { key: `to ${recipient} ${party}`, ...whole },
      { key: `from ${network} ${party}`, ...whole },
      { key: `both ${recipient} ${network} ${party}`, ...half },
    ];
  }

  #isLineFull({ key, mostInLine }: Place): boolean {
    const line = this.#lines.get(key);
    return line !== undefined && line.running + line.waiting.size >= mostInLine;
  }

  #hasRoom(places: readonly Place[]): boolean {
    return places.every(({ key, atATime }) => (this.#lines.get(key)?.running ?? 0) < atATime);
  }

  #run(places: readonly Place[]): void {
    for (const { key } of places) {
      this.#lineOf(key).running += 1;
    }
  }

  /** Makes room for whoever came first of those who can have it. */
  #stop(places: readonly Place[]): void {
    for (const { key } of places) {
      this.#lineOf(key).running -= 1;
    }
    for (const { key } of places) {
      for (const next of this.#lineOf(key).waiting) {
        if (this.#hasRoom(next.places)) {
          next.begin();
        }
      }
      this.#forgetIfEmpty(key);
    }
  }

  #lineOf(key: string): Line {
    const line = this.#lines.get(key) ?? { running: 0, waiting: new Set() };
    this.#lines.set(key, line);
    return line;
  }

  #forgetIfEmpty(key: string): void {
    const line = this.#lines.get(key);
    if (line?.running === 0 && line.waiting.size === 0) {
      this.#lines.delete(key);
    }
  }
}
