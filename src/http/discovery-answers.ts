import { lnurlMetadata, type SendableRange } from '../domain/lnurl.ts';
import { ownCopy } from '../domain/own-copy.ts';
import type { Recipient } from '../usecases/recipients.ts';
import type { PublicHost } from './public-host.ts';

/** What a discovery answer is made of, beside its recipient. */
interface Asked {
  /** By which the payer came. */
  origin: string;
  /** The part before the `@`, in lower case. */
  user: string;
  range: SendableRange;
}

/** An answer, and what it was written for. */
interface Written extends Omit<Asked, 'range'>, SendableRange {
  text: string;
}

/**
 * Writes discovery answers (LUD-06). The last one of each recipient is kept with it: most payers come by one
 * address, and writing takes a tenth of what a whole request does. Whatever else is asked is written anew.
 */
export class DiscoveryAnswers {
  readonly #publicHost: PublicHost;
  readonly #lnurlText: string;
  readonly #announced: object;
  readonly #written = new WeakMap<Recipient, Written>();

  /**
   * @param lnurlText the operator's, with `{address}`
   * @param announced fields of every answer: what payers may send with a payment
   */
  constructor(publicHost: PublicHost, lnurlText: string, announced: object) {
    this.#publicHost = publicHost;
    this.#lnurlText = lnurlText;
    this.#announced = announced;
  }

  /** The answer, as JSON. */
  of(recipient: Recipient, asked: Asked): string {
    const kept = this.#written.get(recipient);
    if (kept !== undefined && isSame(kept, asked)) {
      return kept.text;
    }
    const text = this.#write(asked);
    const { origin, user, range } = asked;
    this.#written.set(recipient, { origin, user: ownCopy(user), ...range, text });
    return text;
  }

  #write({ origin, user, range }: Asked): string {
    const address = `${user}@${this.#publicHost.hostOf(origin)}`;
    return JSON.stringify({
      tag: 'payRequest',
      callback: `${origin}/.well-known/lnurlp/${user}`,
      minSendable: range.minMsat,
      maxSendable: range.maxMsat,
      metadata: lnurlMetadata(address, this.#lnurlText),
      ...this.#announced,
    });
  }
}

function isSame(kept: Written, { origin, user, range }: Asked): boolean {
  return (
    kept.user === user &&
    kept.origin === origin &&
    kept.minMsat === range.minMsat &&
    kept.maxMsat === range.maxMsat
  );
}
