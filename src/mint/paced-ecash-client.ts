import type { EcashClient } from './ecash-client.ts';
import { type PacerParts, RequestPacer } from './request-pacer.ts';

/** What is asked of mints. */
type Asking = Pick<EcashClient, keyof EcashClient>;

/**
 * An {@link EcashClient} that leaves a mint alone when it should: see {@link RequestPacer}. After
 * `rate_limited` nothing was done, whoever says it.
 */
export class PacedEcashClient implements Asking {
  readonly #client: Asking;
  readonly #pacer: RequestPacer;

  constructor({ client, ...parts }: PacerParts & { client: Asking }) {
    this.#client = client;
    this.#pacer = new RequestPacer(parts);
  }

  /** See {@link EcashClient.readKeysets}. */
  readKeysets(...args: Parameters<Asking['readKeysets']>): ReturnType<Asking['readKeysets']> {
    return this.#pacer.paced(args[0], 'keys', () => this.#client.readKeysets(...args));
  }

  /** See {@link EcashClient.readKeys}. */
  readKeys(...args: Parameters<Asking['readKeys']>): ReturnType<Asking['readKeys']> {
    return this.#pacer.paced(args[0], 'keys', () => this.#client.readKeys(...args));
  }

  /** See {@link EcashClient.swap}. */
  swap(...args: Parameters<Asking['swap']>): ReturnType<Asking['swap']> {
    return this.#pacer.paced(args[0], 'swap', () => this.#client.swap(...args));
  }

  /** See {@link EcashClient.checkState}. */
  checkState(...args: Parameters<Asking['checkState']>): ReturnType<Asking['checkState']> {
    return this.#pacer.paced(args[0], 'state', () => this.#client.checkState(...args));
  }

  /** See {@link EcashClient.restore}. */
  restore(...args: Parameters<Asking['restore']>): ReturnType<Asking['restore']> {
    return this.#pacer.paced(args[0], 'restore', () => this.#client.restore(...args));
  }

  /** See {@link EcashClient.createMeltQuote}. */
  createMeltQuote(
    ...args: Parameters<Asking['createMeltQuote']>
  ): ReturnType<Asking['createMeltQuote']> {
    return this.#pacer.paced(args[0], 'melt_quote', () => this.#client.createMeltQuote(...args));
  }

  /** See {@link EcashClient.readMeltQuote}. */
  readMeltQuote(...args: Parameters<Asking['readMeltQuote']>): ReturnType<Asking['readMeltQuote']> {
    return this.#pacer.paced(args[0], 'melt_quote', () => this.#client.readMeltQuote(...args));
  }

  /** See {@link EcashClient.melt}. */
  melt(...args: Parameters<Asking['melt']>): ReturnType<Asking['melt']> {
    return this.#pacer.paced(args[0], 'melt', () => this.#client.melt(...args));
  }
}
