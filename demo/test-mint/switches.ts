import type { ChaosConfig } from './chaos.ts';
import type { RateLimit } from './rate-limiter.ts';

/** The mint software whose error codes and quote fields the test mint imitates. */
export type MintStyle = 'nutshell' | 'cdk';

/**
 * Configures the test mint to behave like different real mints. The mint reads this object for every request, so
 * a test can change it while the mint runs.
 */
export interface TestMintSwitches {
  /**
   * A `nutshell` mint sends `pubkey: null` for an unlocked quote, and rejects a repeated swap because its inputs
   * are spent (11001).
   *
   * A `cdk` mint has different error codes. It sends `method` in each quote and omits the `pubkey` of an unlocked
   * quote. It rejects a batch that is empty or has duplicates, and rejects a repeated swap because its outputs
   * are already signed (11003).
   */
  style: MintStyle;
  /** NUT-06. */
  name: string;
  /** NUT-06. */
  version: string;
  /** NUT-06. Null: the info has no description. */
  description: string | null;

  /** NUT-29. The batch check is advertised, works without being advertised, or returns 404. */
  batchCheck: 'advertised' | 'unadvertised' | 'absent';
  /** The mint rejects batches with more quote ids. */
  maxBatchSize: number;
  /** NUT-17. False: the WebSocket returns 404 and is not advertised. */
  hasWebSocket: boolean;
  /** The WebSocket accepts connections and subscriptions, but never sends a state. */
  isWebSocketSilent: boolean;
  /** The only kind that the WebSocket advertises and accepts. `mint_quote` is proposed (nuts PR 372). */
  subscriptionKind: 'bolt11_mint_quote' | 'mint_quote';
  /**
   * The first change of a quote within this time after its subscription is not reported. At Nutshell, this happens to
   * some payments that arrive while it registers a subscription.
   */
  subscriptionGapMs: number;
  /** NUT-09. False: the restore endpoint returns 404 and is not advertised. */
  supportsRestore: boolean;

  /** NUT-20. False: locking is not advertised, and the mint ignores a pubkey. */
  supportsLocking: boolean;
  /** False: locking is advertised, but the mint drops the pubkey. */
  shouldEchoPubkey: boolean;
  /** NUT-23. False: descriptions are not advertised, and the mint rejects them. */
  supportsDescription: boolean;
  /** Proposed for NUT-23 (nuts PR 417). False: the mint does not advertise description hashes and ignores them. */
  supportsDescriptionHash: boolean;
  /** The mint advertises and enforces this limit. Null: no limit. */
  minAmountSat: number | null;
  /** Like `minAmountSat`. */
  maxAmountSat: number | null;
  /** NUT-04 `disabled`: the mint creates no new quotes. */
  isMintingDisabled: boolean;

  /** The mint rejects swaps and melts with more inputs (status 422, as Nutshell). Null: no limit. */
  maxInputs: number | null;
  /** A paid quote cannot be issued after its expiry. */
  refusesAfterExpiry: boolean;
  /** Lightning payments of melts fail. */
  doPaymentsFail: boolean;

  /** False: responses have no CORS headers, so web pages cannot read them. */
  allowsWebPages: boolean;

  quoteIdStyle: 'uuidv7' | 'base64url';
  expirySeconds: number;
  /** Responses after the creation have `expiry: null` and `pubkey: ""`, as in Nutshell. */
  omitsExpiryAndPubkeyAfterCreation: boolean;
  /** The amount of every invoice, whatever amount is requested. Null: the requested amount. */
  invoiceAmountOverrideSat: number | null;
  /**
   * How quotes report their state. `paid`: with a boolean, as mints did before `state` was introduced. `text`: with
   * a state in lower case, and with whole numbers as text. `amounts`: with `method` and the amounts only, because NUT-04
   * deprecates `state`.
   */
  stateStyle: 'current' | 'paid' | 'text' | 'amounts';
  /** How long a quote is `PENDING` before it is `ISSUED`. 0: the quote is never `PENDING`. */
  issueDelayMs: number;

  /**
   * The mint applies the limit to each path separately, so reading single quotes has one limit per quote.
   * WebSocket upgrades and messages share one limit. Null: no limit.
   */
  rateLimit: RateLimit | null;
  /** The mint accepts connections, but never responds to requests and WebSocket messages. */
  isUnresponsive: boolean;
  /** Random faults. Null: none. */
  chaos: ChaosConfig | null;
}

/** A well-behaved mint. */
export const DEFAULT_TEST_MINT_SWITCHES: Readonly<TestMintSwitches> = Object.freeze({
  style: 'nutshell',
  name: 'Test mint',
  version: 'Nutshell/0.21.0',
  description: null,
  batchCheck: 'advertised',
  maxBatchSize: 1000,
  hasWebSocket: true,
  isWebSocketSilent: false,
  subscriptionKind: 'bolt11_mint_quote',
  subscriptionGapMs: 0,
  supportsRestore: true,
  supportsLocking: true,
  shouldEchoPubkey: true,
  supportsDescription: true,
  supportsDescriptionHash: false,
  minAmountSat: null,
  maxAmountSat: null,
  isMintingDisabled: false,
  maxInputs: null,
  refusesAfterExpiry: false,
  doPaymentsFail: false,
  allowsWebPages: true,
  quoteIdStyle: 'uuidv7',
  expirySeconds: 3600,
  omitsExpiryAndPubkeyAfterCreation: false,
  invoiceAmountOverrideSat: null,
  stateStyle: 'current',
  issueDelayMs: 0,
  rateLimit: null,
  isUnresponsive: false,
  chaos: null,
} satisfies TestMintSwitches);
