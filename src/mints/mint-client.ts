import {
  isUnknownQuoteError,
  type MintErrorResponse,
  parseErrorDetail,
  parseRedactedErrorDetail,
} from './mint-error.ts';
import { type MintInfo, parseMintInfo } from './mint-info.ts';
import type { MintPermit } from './mint-rate-limiter.ts';
import { type FailedResult, type MintRequestDeps, sendMintRequest } from './mint-request.ts';
import {
  type CreatedQuote,
  isQuoteId,
  parseCreatedQuote,
  parseQuoteObservation,
  type QuoteObservation,
} from './quote-responses.ts';

interface RejectedResult {
  outcome: 'rejected';
  status: number;
  /** The mint's error message, short and printable. */
  detail: string;
}

/** At most one of the two fields; none if the mint supports neither. */
export interface InvoiceDescription {
  description?: string;
  /** SHA-256, hex. */
  descriptionHash?: string;
}

export type CreateQuoteResult =
  | { outcome: 'created'; quote: CreatedQuote }
  | RejectedResult
  | FailedResult;

export type ReadQuoteResult =
  | { outcome: 'found'; observation: QuoteObservation }
  | { outcome: 'not_found' }
  | FailedResult;

export type CheckQuotesResult =
  /** Without the quotes whose entry is missing or malformed. */
  | { outcome: 'found'; observations: QuoteObservation[] }
  /** One unknown id fails the whole batch (NUT-29): split it. */
  | RejectedResult
  | { outcome: 'unsupported' }
  | FailedResult;

export type ReadInfoResult =
  | { outcome: 'found'; info: MintInfo }
  /** The server responds, but not as a mint. */
  | { outcome: 'invalid' }
  | FailedResult;

/** A quote with a long invoice and all its fields is about 2 kB. */
const MAX_QUOTE_RESPONSE_BYTES = 64 * 1024;

/** A mint may repeat an id; more entries only take time to parse. */
const MAX_ENTRIES_PER_ID = 2;

/** On top of {@link MAX_QUOTE_RESPONSE_BYTES}: 1000 quotes with long invoices are about 2 MB. */
const MAX_BYTES_PER_CHECKED_QUOTE = 3 * 1024;

/** The info of a mint with a long description and message is about 10 kB. */
const MAX_INFO_RESPONSE_BYTES = 256 * 1024;

const NOT_FOUND = 404;

const MISSING_ROUTE_STATUSES: ReadonlySet<number> = new Set([NOT_FOUND, 405]);

/** For a batch with an unknown id (NUT-29). Any other status, such as a proxy's, does not depend on the ids. */
const UNKNOWN_ID_STATUSES: ReadonlySet<number> = new Set([400, NOT_FOUND, 422]);

/** Sends plain requests to mints (NUT-04, NUT-06, NUT-23, NUT-29). Mint URLs are normalised. */
export class MintClient {
  readonly #deps: MintRequestDeps;

  constructor(deps: MintRequestDeps) {
    this.#deps = deps;
  }

  /**
   * Creates a bolt11 quote in sat (NUT-04, NUT-23).
   *
   * @param params.pubkey locks the quote to this key: 33 bytes compressed, hex (NUT-20). The caller
   *   compares it with the key in the response
   * @param params.description only for mints that accept one, like `descriptionHash`: others reject the quote
   * @param permit for the route `create`
   */
  async createQuote(
    mintUrl: string,
    params: { amountSat: number; pubkey?: string } & InvoiceDescription,
    permit?: MintPermit,
  ): Promise<CreateQuoteResult> {
    const { amountSat, pubkey, description, descriptionHash: description_hash } = params;
    return await sendMintRequest<CreateQuoteResult>(this.#deps, {
      mintUrl,
      route: 'create',
      path: '/v1/mint/quote/bolt11',
      // JSON omits undefined fields.
      body: { amount: amountSat, unit: 'sat', pubkey, description, description_hash },
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES,
      permit,
      parse: (body) => {
        const quote = parseCreatedQuote(body);
        return quote && { outcome: 'created', quote };
      },
      parseRejection: toRejectedResult,
    });
  }

  /** Reads one quote (NUT-23). */
  async readQuote(mintUrl: string, quoteId: string): Promise<ReadQuoteResult> {
    if (!isQuoteId(quoteId)) {
      return { outcome: 'not_found' };
    }
    return await sendMintRequest<ReadQuoteResult>(this.#deps, {
      mintUrl,
      route: 'read',
      path: `/v1/mint/quote/bolt11/${encodeURIComponent(quoteId)}`,
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES,
      parse: (body) => {
        const observation = parseQuoteObservation(body);
        return observation?.quoteId === quoteId ? { outcome: 'found', observation } : null;
      },
      parseRejection: (response) =>
        isUnknownQuoteError(parseErrorDetail(response)) ? { outcome: 'not_found' } : null,
    });
  }

  /**
   * Reads many quotes with one request (NUT-29). Duplicate ids are sent once; entries are matched by id.
   *
   * @param quoteIds at most as many as the mint advertises
   */
  async checkQuotes(mintUrl: string, quoteIds: readonly string[]): Promise<CheckQuotesResult> {
    const ids = new Set(quoteIds.filter(isQuoteId));
    if (ids.size === 0) {
      return { outcome: 'found', observations: [] };
    }
    return await sendMintRequest<CheckQuotesResult>(this.#deps, {
      mintUrl,
      route: 'check',
      path: '/v1/mint/quote/bolt11/check',
      body: { quotes: [...ids] },
      maxResponseBytes: MAX_QUOTE_RESPONSE_BYTES + ids.size * MAX_BYTES_PER_CHECKED_QUOTE,
      parse: (quotes) => {
        if (!Array.isArray(quotes) || quotes.length > MAX_ENTRIES_PER_ID * ids.size) {
          return null;
        }
        const observations = quotes
          .map(parseQuoteObservation)
          .filter((observation) => observation !== null)
          .filter(({ quoteId }) => ids.has(quoteId));
        return { outcome: 'found', observations };
      },
      parseRejection: (response) => {
        const isRouteMissing = MISSING_ROUTE_STATUSES.has(response.status);
        if (isRouteMissing && !isUnknownQuoteError(parseErrorDetail(response))) {
          return { outcome: 'unsupported' };
        }
        return UNKNOWN_ID_STATUSES.has(response.status) ? toRejectedResult(response) : null;
      },
    });
  }

  /** Reads what the mint offers (NUT-06). */
  async readInfo(mintUrl: string): Promise<ReadInfoResult> {
    return await sendMintRequest<ReadInfoResult>(this.#deps, {
      mintUrl,
      route: 'info',
      path: '/v1/info',
      maxResponseBytes: MAX_INFO_RESPONSE_BYTES,
      parse: (body) => {
        const info = parseMintInfo(body);
        return info === null ? { outcome: 'invalid' } : { outcome: 'found', info };
      },
      parseRejection: ({ status }) => (status === NOT_FOUND ? { outcome: 'invalid' } : null),
    });
  }
}

function toRejectedResult(response: MintErrorResponse & { status: number }): RejectedResult {
  const detail = parseRedactedErrorDetail(response);
  return { outcome: 'rejected', status: response.status, detail };
}
