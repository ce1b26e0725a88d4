import type { Dice } from '../../src/demo/test-mint/dice.ts';
import type { Client } from './client.ts';
import type { Site } from './site.ts';
import type { Recipient } from './truth.ts';

/** A page of the list (spec.md section 8). */
export const PAGE_SIZE = 50;

/** Well below the thirty minutes that a JWT lives. */
const TOKEN_LIFETIME_MS = 15 * 60_000;

/** A quote as the list tells it (spec.md section 2). Times in Unix seconds. */
export interface ListedQuote {
  createdAt: number;
  paidAt: number;
  expiresAt: number;
  mintUrl: string;
  quoteId: string;
  request: string;
  amount: number;
  state: 'PAID' | 'INFLIGHT' | 'ISSUED';
  locked: boolean;
}

/** One answer of the list. */
export interface ListPage {
  quotes: ListedQuote[];
  total: number;
  /** When it was asked for, and when its answer had come; milliseconds since 1970. */
  askedAtMs: number;
  readAtMs: number;
}

/** Reads the recipients' lists from whichever process is up. */
export class ListReader {
  readonly #client: Client;
  readonly #site: Site;
  readonly #dice: Dice;
  readonly #tokens = new Map<Recipient, { token: string; expiresAtMs: number }>();

  constructor(client: Client, site: Site, dice: Dice) {
    this.#client = client;
    this.#site = site;
    this.#dice = dice;
  }

  /**
   * Reads a page.
   *
   * @param since Unix seconds
   * @returns null where no process gave it
   */
  async page(recipient: Recipient, offset = 0, since?: number): Promise<ListPage | null> {
    const origin = this.#site.anyOrigin(this.#dice);
    const token = await this.#token(recipient, origin);
    if (token === null) {
      return null;
    }
    const query = `limit=${PAGE_SIZE}&offset=${offset}${since === undefined ? '' : `&since=${since}`}`;
    const path = `/api/v2/wallet/quotes?${query}`;
    const askedAtMs = Date.now();
    const answer = await this.#client.ask(origin, path, {
      headers: { authorization: `Bearer ${token}` },
    });
    return answer?.status === 200
      ? {
          quotes: answer.body.data.quotes,
          total: answer.body.metadata.total,
          askedAtMs,
          readAtMs: Date.now(),
        }
      : null;
  }

  /** Reads all pages, as today's SDK does; null where one of them was not given. */
  async all(recipient: Recipient, since?: number): Promise<ListPage[] | null> {
    const pages: ListPage[] = [];
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const page = await this.page(recipient, offset, since);
      if (page === null) {
        return null;
      }
      pages.push(page);
      if (offset + PAGE_SIZE >= page.total) {
        return pages;
      }
    }
  }

  async #token(recipient: Recipient, origin: string): Promise<string | null> {
    const known = this.#tokens.get(recipient);
    if (known !== undefined && Date.now() < known.expiresAtMs) {
      return known.token;
    }
    const path = '/api/v2/auth/nip98';
    const authorization = recipient.wallet.at(origin).sign(path);
    const answer = await this.#client.ask(origin, path, { headers: { authorization } });
    if (answer?.status !== 200) {
      return null;
    }
    const { token } = answer.body.data as { token: string };
    this.#tokens.set(recipient, { token, expiresAtMs: Date.now() + TOKEN_LIFETIME_MS });
    return token;
  }
}
