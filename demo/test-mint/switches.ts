import type { ChaosSwitch } from './chaos.ts';
import type { RateLimit } from './rate-limit.ts';

/** The real mint that the test mint behaves like where the two differ: errors and fields of a quote. */
export type MintStyle = 'nutshell' | 'cdk';

/**
 * How real mints differ. A plain object, read at every request, so a test can change it while the mint runs.
 *
 * `style` decides what always comes together. `nutshell`: `pubkey: null` for an unlocked quote. `cdk`: its
 * own error codes, `method` in each quote, `pubkey` left out if there is none; a batch without ids or with
 * duplicates is refused. Nutshell refuses a repeated swap for its spent inputs (11001), cdk for its signed
 * outputs (11003).
 */
export interface TestMintSwitches {
  style: MintStyle;

  /** NUT-29: whether the batch check is advertised, works without being advertised, or is answered 404. */
  batch: 'advertised' | 'unadvertised' | 'absent';
  /** More ids in one batch are refused. */
  maxBatchSize: number;
  /** NUT-17: whether there is a WebSocket (if not, 404 and not advertised). */
  socket: boolean;
  /** The WebSocket opens and confirms subscriptions, but never sends a state. */
  socketSilent: boolean;
  /** NUT-09: whether signatures are restored (if not, 404 and not advertised). */
  restore: boolean;

  /** NUT-20: whether locked quotes are advertised; if not, a pubkey is ignored. */
  locking: boolean;
  /** False: locking is advertised, but the pubkey is dropped. */
  echoPubkey: boolean;
  /** NUT-23: whether descriptions are advertised; if not, they are refused. */
  description: boolean;
  /** Proposed for NUT-23 (nuts PR 417): whether description hashes are advertised; if not, they are ignored. */
  descriptionHash: boolean;
  /** Advertised and enforced; null: no limit. */
  minAmountSat: number | null;
  maxAmountSat: number | null;
  /** NUT-04 `disabled`: no new quotes. */
  mintDisabled: boolean;

  quoteIdStyle: 'uuidv7' | 'base64url';
  /** How long a new invoice is valid. */
  expirySeconds: number;
  /** Answers after the creation have `expiry: null` and `pubkey: ""`, as with Nutshell. */
  dropLaterFacts: boolean;
  /** The invoice is for this amount; null: for the amount asked. */
  wrongInvoiceAmountSat: number | null;
  /** How long a quote is `PENDING` while it is issued; 0: not at all. */
  issuePauseMs: number;

  /**
   * A limit on each path, and so on each quote for single reads; the openings and messages of the WebSocket
   * share another one. Null: no limit.
   */
  rateLimit: RateLimit | null;
  /** Connections are accepted and never answered; open WebSockets fall silent. */
  dead: boolean;
  /** What goes wrong at random; null: nothing does. */
  chaos: ChaosSwitch | null;
}

/** A well-behaved mint. */
export const DEFAULT_TEST_MINT_SWITCHES: Readonly<TestMintSwitches> = Object.freeze({
  style: 'nutshell',
  batch: 'advertised',
  maxBatchSize: 1000,
  socket: true,
  socketSilent: false,
  restore: true,
  locking: true,
  echoPubkey: true,
  description: true,
  descriptionHash: false,
  minAmountSat: null,
  maxAmountSat: null,
  mintDisabled: false,
  quoteIdStyle: 'uuidv7',
  expirySeconds: 3600,
  dropLaterFacts: false,
  wrongInvoiceAmountSat: null,
  issuePauseMs: 0,
  rateLimit: null,
  dead: false,
  chaos: null,
} satisfies TestMintSwitches);
