import type { ChaosSwitch } from './chaos.ts';
import type { RateLimit } from './rate-limit.ts';

/** Whose manners the mint has: errors, fields of a quote and rules that differ between the two. */
export type MintStyle = 'nutshell' | 'cdk';

/**
 * How real mints differ. A plain object, read at every request: a test flips it while the mint runs.
 *
 * `style` decides what always comes together. `nutshell`: FastAPI validation errors, `pubkey: null`
 * for an unlocked quote, no minting after the expiry, a socket's life limited to 1000 filters.
 * `cdk`: its own error codes, malformed requests answered in plain text, `method` in each mint
 * quote, `pubkey` left out when there is none; duplicates and an empty list refused in a batch, so
 * are a pubkey that is no point, and a signature on an unlocked quote. The same swap again is refused
 * for its spent inputs by Nutshell (11001), for its signed outputs by cdk (11003).
 */
export interface TestMintSwitches {
  style: MintStyle;

  /** NUT-29: whether the batch is offered, offered but not advertised, or answered 404. */
  batch: 'advertised' | 'unadvertised' | 'absent';
  /** More ids in one batch are refused. */
  maxBatchSize: number;
  /** NUT-17: whether there is a WebSocket (404 and not advertised otherwise). */
  socket: boolean;
  /** The WebSocket opens and says OK, but never sends a state. */
  socketSilent: boolean;

  /** NUT-09: whether signatures are restored (404 and not advertised otherwise). */
  restore: boolean;

  /** NUT-20: whether locked quotes are advertised; where not, a pubkey is ignored. */
  locking: boolean;
  /** False: locking is advertised, but the pubkey is forgotten: neither kept nor echoed. */
  echoPubkey: boolean;
  /** NUT-23: whether an invoice's description is taken; refused where not. */
  description: boolean;
  /**
   * Whether an invoice can carry the hash of what it is for (proposed for NUT-23, nuts PR 417); passed
   * over where not, as mints do with a field that they do not know. No released mint has it.
   */
  descriptionHash: boolean;
  /**
   * An order with a longer description, or the hash of one, is answered with this status and the words
   * themselves, as where the Lightning node does not bear what its mint announced; null: none is.
   */
  refusesWords: { longerThanBytes: number; status: number } | null;
  /** Advertised and held; null: no limit. */
  minAmountSat: number | null;
  maxAmountSat: number | null;
  /** NUT-04 `disabled`: no new quotes. */
  mintDisabled: boolean;

  /** NUT-05 `disabled`: no new melt quotes. */
  meltDisabled: boolean;
  /** What a melt quote asks for above its amount. Read at its creation. */
  meltFeeReserveSat: number;
  /** What a payment really costs, at most the reserve; the rest comes back as change (NUT-08). */
  meltFeeSat: number;
  /**
   * What becomes of a payment: made, failed, or pending until the test settles it. An invoice of this
   * mint itself needs no payment: it is settled at once, without a fee. An expired one always fails.
   */
  meltPayment: 'paid' | 'failed' | 'pending';

  quoteIdStyle: 'uuidv7' | 'base64url';
  /** How long a new invoice is good for. */
  expirySeconds: number;
  /** How `expiry` is told; the invoice itself always has its own. */
  expiryField: 'seconds' | 'zero' | 'null' | 'milliseconds';
  /**
   * Every answer after the creation says `expiry: null` and `pubkey: ""`. Nutshell does so; of a
   * locked quote it keeps the pubkey, this mint does not even that.
   */
  dropLaterFacts: boolean;
  /** The invoice is for this amount, whatever was asked for; null: for what was asked. */
  wrongInvoiceAmountSat: number | null;

  /** Somebody pays every new invoice after this time; null: nobody does. Read at creation. */
  payAutomaticallyAfterMs: number | null;
  /** How long a quote is `PENDING` while it is issued; 0: not at all. */
  issuePauseMs: number;

  /**
   * A limit on each path, and so on each quote for single reads; the WebSocket's openings and messages
   * share another one. Null: no limit.
   */
  rateLimit: RateLimit | null;
  /** Every answer waits so long. */
  delayMs: number;
  /** Connections are accepted and never answered; open WebSockets fall silent. */
  dead: boolean;
  /** What goes wrong by chance, on every route and on the WebSocket; null: nothing does. */
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
  refusesWords: null,
  minAmountSat: null,
  maxAmountSat: null,
  mintDisabled: false,
  meltDisabled: false,
  meltFeeReserveSat: 2,
  meltFeeSat: 1,
  meltPayment: 'paid',
  quoteIdStyle: 'uuidv7',
  expirySeconds: 3600,
  expiryField: 'seconds',
  dropLaterFacts: false,
  wrongInvoiceAmountSat: null,
  payAutomaticallyAfterMs: null,
  issuePauseMs: 0,
  rateLimit: null,
  delayMs: 0,
  dead: false,
  chaos: null,
} satisfies TestMintSwitches);
