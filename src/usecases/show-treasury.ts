import type { Clock } from '../domain/clock.ts';
import type { ProofState } from '../domain/ecash.ts';
import type { Sealer } from '../ecash/seal.ts';
import type { EcashClient } from '../mint/ecash-client.ts';
import type { Earnings, WaitingPurchase } from '../store/purchase-store.ts';
import type { Store } from '../store/store.ts';
import type { MintBalance, SealedProof } from '../store/treasury-store.ts';
import type { Withdrawal } from '../store/withdrawal-store.ts';
import { forgetRedeemed, type OtherSecret, tokenOf, ysOf } from './treasury-token.ts';

/** More that have ended are not shown: nobody reads on. */
const MAX_SHOWN = 100;

/** Mints take no more in one question (NUT-07). */
const MAX_YS = 1_000;

/** Whether a token that was handed out is still good. */
export type TokenStanding =
  | 'unredeemed'
  /** Somebody redeemed some of its proofs. */
  | 'partly_redeemed'
  | 'redeemed'
  /** Its proofs are part of something under way, such as its redemption or taking it back. */
  | 'being_redeemed'
  | 'being_taken_back'
  /** The mint does not say. */
  | 'unknown';

/** A token that was handed out. */
export interface HandedOut {
  withdrawal: Withdrawal;
  standing: TokenStanding;
}

/** The operator's money, and what happens with it. */
export interface TreasuryOverview {
  nowMs: number;
  balances: MintBalance[];
  earnings: Earnings;
  waitingPurchases: WaitingPurchase[];
  openWithdrawals: Withdrawal[];
  /** Those that were not redeemed in whole when the mint was asked. */
  handedOut: HandedOut[];
}

/** A withdrawal of any kind; the standing of its token where it has one. */
export interface ShownWithdrawal {
  withdrawal: Withdrawal;
  standing: TokenStanding | null;
}

/** The token of a withdrawal, to be handed out again. */
export type ShownToken =
  | { outcome: 'token'; token: string; amountSat: number; standing: TokenStanding }
  | { outcome: 'redeemed'; withdrawal: Withdrawal }
  /** It was paid to an address, came to nothing, was taken back, or is not made yet. */
  | { outcome: 'no_token'; withdrawal: Withdrawal }
  | { outcome: 'not_found' }
  | OtherSecret;

/** Shows the operator the treasury. A token that somebody redeemed is forgotten when that is seen. */
export class ShowTreasury {
  readonly #store: Store;
  readonly #mints: Pick<EcashClient, 'checkState'>;
  readonly #sealer: Sealer;
  readonly #clock: Clock;

  constructor(parts: {
    store: Store;
    mints: Pick<EcashClient, 'checkState'>;
    sealer: Sealer;
    clock: Clock;
  }) {
    this.#store = parts.store;
    this.#mints = parts.mints;
    this.#sealer = parts.sealer;
    this.#clock = parts.clock;
  }

  /** What there is, and what is under way. */
  async overview(): Promise<TreasuryOverview> {
    const { purchases, treasury, withdrawals } = this.#store;
    const handedOut = await this.#look(await withdrawals.list('unredeemed', Infinity));
    return {
      nowMs: this.#clock(),
      balances: await treasury.balances(),
      earnings: await purchases.earnings(),
      waitingPurchases: await purchases.listWaiting(MAX_SHOWN),
      openWithdrawals: await withdrawals.list('open', Infinity),
      handedOut: handedOut.filter(({ standing }) => standing !== 'redeemed'),
    };
  }

  /** The newest withdrawals, whatever became of them. */
  async withdrawals(): Promise<{ nowMs: number; withdrawals: ShownWithdrawal[] }> {
    const all = await this.#store.withdrawals.list('all', MAX_SHOWN);
    const standings = new Map(
      (await this.#look(all.filter(isHandedOut))).map(({ withdrawal, standing }) => [
        withdrawal.id,
        standing,
      ]),
    );
    const withdrawals = all.map((withdrawal) => ({
      withdrawal,
      standing:
        standings.get(withdrawal.id) ?? (withdrawal.redeemedAtMs === null ? null : 'redeemed'),
    }));
    return { nowMs: this.#clock(), withdrawals };
  }

  /** The token of a withdrawal again, as long as it is worth something. */
  async token(id: string): Promise<ShownToken> {
    const withdrawal = await this.#store.withdrawals.find(id);
    if (withdrawal === null) {
      return { outcome: 'not_found' };
    }
    if (withdrawal.redeemedAtMs !== null) {
      return { outcome: 'redeemed', withdrawal };
    }
    const [looked] = await this.#look([withdrawal].filter(isHandedOut));
    if (looked === undefined || looked.standing === 'being_taken_back') {
      return { outcome: 'no_token', withdrawal };
    }
    const { standing } = looked;
    if (standing === 'redeemed') {
      return { outcome: 'redeemed', withdrawal };
    }
    const encoded = await tokenOf(this.#store, this.#sealer, withdrawal);
    return encoded.outcome === 'encoded'
      ? { outcome: 'token', token: encoded.token, amountSat: withdrawal.amountSat, standing }
      : encoded;
  }

  /** Asks the mints of tokens whether they were redeemed, and writes that down. */
  async #look(tokens: readonly Withdrawal[]): Promise<HandedOut[]> {
    const kept = new Map<string, SealedProof[]>();
    for (const { id } of tokens) {
      kept.set(id, await this.#store.treasury.listOf(id));
    }
    const states = await this.#states([...kept.values()].flat());
    const looked: HandedOut[] = [];
    for (const withdrawal of tokens) {
      const proofs = kept.get(withdrawal.id) ?? [];
      const seen = standingOf(proofs.map(({ y }) => states.get(y)));
      const isGone = seen === 'redeemed' || seen === 'being_taken_back';
      const isRedeemed =
        isGone &&
        (await this.#store.transaction((tx) =>
          forgetRedeemed(tx, withdrawal.id, proofs, this.#clock()),
        ));
      looked.push({ withdrawal, standing: isRedeemed ? 'redeemed' : seen });
    }
    return looked;
  }

  /** By Y; what a mint does not say is not among them. All mints at once: some may be away. */
  async #states(proofs: readonly SealedProof[]): Promise<ReadonlyMap<string, ProofState>> {
    const byMint = Map.groupBy(proofs, ({ mintUrl }) => mintUrl);
    const answers = await Promise.all(
      [...byMint].map(([mintUrl, all]) => this.#statesAt(mintUrl, ysOf(all))),
    );
    return new Map(answers.flat());
  }

  /** A mint that does not answer is not asked for the rest. */
  async #statesAt(mintUrl: string, ys: readonly string[]): Promise<[string, ProofState][]> {
    const states: [string, ProofState][] = [];
    for (let start = 0; start < ys.length; start += MAX_YS) {
      const answer = await this.#mints.checkState(mintUrl, ys.slice(start, start + MAX_YS));
      if (answer.outcome !== 'found') {
        return states;
      }
      states.push(...answer.states);
    }
    return states;
  }
}

function isHandedOut({ detail, state, redeemedAtMs }: Withdrawal): boolean {
  return detail.kind === 'token' && state === 'done' && redeemedAtMs === null;
}

/** @param said of each proof of a token; undefined where the mint said nothing */
function standingOf(said: readonly (ProofState | undefined)[]): TokenStanding {
  const states = new Set(said);
  if (states.size === 0) {
    return 'being_taken_back';
  }
  if (states.has(undefined)) {
    return 'unknown';
  }
  if (states.has('PENDING')) {
    return 'being_redeemed';
  }
  if (!states.has('SPENT')) {
    return 'unredeemed';
  }
  return states.has('UNSPENT') ? 'partly_redeemed' : 'redeemed';
}
