import type { ChaosConfig } from './chaos.ts';
import type { RateLimit } from './rate-limiter.ts';

/** The mint software to imitate where implementations differ: errors and quote fields. */
export type MintStyle = 'nutshell' | 'cdk';

/**
 * Ways in which real mints differ. The mint reads this object for every request, so a test can change it
 * while the mint runs.
 *
 * `style` covers the differences that always go together. `nutshell`: `pubkey: null` for an unlocked quote.
 * `cdk`: different error codes, `method` in each quote, no `pubkey` for an unlocked quote, and rejection of
 * a batch without ids or with duplicates. Nutshell rejects a repeated swap for its spent inputs (11001), cdk
 * for its signed outputs (11003).
 */
export interface TestMintSwitches {
  style: MintStyle;

  /** NUT-29: the batch check is advertised, works without being advertised, or returns 404. */
  batch: 'advertised' | 'unadvertised' | 'absent';
  /** The mint rejects a batch with more ids. */
  maxBatchSize: number;
  /** NUT-17. False: the WebSocket returns 404 and is not advertised. */
  hasWebSocket: boolean;
  /** The WebSocket accepts connections and subscriptions, but never sends a state. */
  isWebSocketSilent: boolean;
  /** NUT-09. False: the restore endpoint returns 404 and is not advertised. */
  supportsRestore: boolean;

  /** NUT-20. False: locking is not advertised, and the mint ignores a pubkey. */
  supportsLocking: boolean;
  /** False: locking is advertised, but the mint drops the pubkey. */
  shouldEchoPubkey: boolean;
  /** NUT-23. False: descriptions are not advertised, and the mint rejects them. */
  supportsDescription: boolean;
  /** Proposed for NUT-23 (nuts PR 417). False: description hashes are not advertised, and ignored. */
  supportsDescriptionHash: boolean;
  /** Advertised and enforced; null: no limit. */
  minAmountSat: number | null;
  maxAmountSat: number | null;
  /** NUT-04 `disabled`: the mint creates no new quotes. */
  isMintingDisabled: boolean;

  quoteIdStyle: 'uuidv7' | 'base64url';
  expirySeconds: number;
  /** Responses after the creation have `expiry: null` and `pubkey: ""`, as in Nutshell. */
  omitsExpiryAndPubkeyAfterCreation: boolean;
  /** Amount of every invoice. Null: the requested amount. */
  invoiceAmountOverrideSat: number | null;
  /** How long a quote is `PENDING` before it is `ISSUED`. 0: it skips `PENDING`. */
  issueDelayMs: number;

  /**
   * Limit for each path; single reads therefore have one limit per quote. WebSocket upgrades and messages
   * share one limit. Null: no limit.
   */
  rateLimit: RateLimit | null;
  /** The mint accepts connections but never responds, also on open WebSockets. */
  isUnresponsive: boolean;
  /** Random faults. Null: none. */
  chaos: ChaosConfig | null;
}

/** A well-behaved mint. */
export const DEFAULT_TEST_MINT_SWITCHES: Readonly<TestMintSwitches> = Object.freeze({
  style: 'nutshell',
  batch: 'advertised',
  maxBatchSize: 1000,
  hasWebSocket: true,
  isWebSocketSilent: false,
  supportsRestore: true,
  supportsLocking: true,
  shouldEchoPubkey: true,
  supportsDescription: true,
  supportsDescriptionHash: false,
  minAmountSat: null,
  maxAmountSat: null,
  isMintingDisabled: false,
  quoteIdStyle: 'uuidv7',
  expirySeconds: 3600,
  omitsExpiryAndPubkeyAfterCreation: false,
  invoiceAmountOverrideSat: null,
  issueDelayMs: 0,
  rateLimit: null,
  isUnresponsive: false,
  chaos: null,
} satisfies TestMintSwitches);
