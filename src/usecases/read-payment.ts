import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';
import type { Proof } from '../domain/ecash.ts';
import { Refusal } from '../domain/errors.ts';
import { hasFalseDleq } from '../ecash/proofs.ts';
import { readToken, type TokenReading } from '../ecash/token.ts';
import type { Log } from '../log.ts';
import { type KeysetCache, REFRESH_GAP_MS } from '../mint/keyset-cache.ts';
import type { MintInfoCache } from '../mint/mint-info-cache.ts';

/** A token that can be redeemed, as far as can be told without redeeming it. */
export interface Payment {
  outcome: 'read';
  proofs: Proof[];
  faceValueSat: number;
}

/** Reads tokens that are to pay for something at one mint. */
export class ReadPayment {
  readonly #mintUrl: string;
  readonly #infos: Pick<MintInfoCache, 'get' | 'refresh'>;
  readonly #keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'hasHeardSince' | 'keys'>;
  readonly #allowHttpMints: boolean;
  readonly #clock: Clock;
  readonly #log: Log;

  /** @param parts.mintUrl normalised: of no other mint's ecash */
  constructor(parts: {
    mintUrl: string;
    infos: Pick<MintInfoCache, 'get' | 'refresh'>;
    keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'hasHeardSince' | 'keys'>;
    allowHttpMints: boolean;
    clock: Clock;
    log: Log;
  }) {
    this.#mintUrl = parts.mintUrl;
    this.#infos = parts.infos;
    this.#keysets = parts.keysets;
    this.#allowHttpMints = parts.allowHttpMints;
    this.#clock = parts.clock;
    this.#log = parts.log;
  }

  /**
   * Reads a token (NUT-00). Where it cannot pay, the reason is one sentence for the payer.
   *
   * @param priceSat its face value has to be that at least; what the mint takes of it is not the payer's
   * @throws Refusal (unavailable) where the mint does not tell what is needed to know it
   */
  async read(
    text: string,
    priceSat: number,
  ): Promise<Payment | { outcome: 'refused'; reason: string }> {
    await this.#requireRestoring();
    const reading = await this.#readByKeysets(text);
    if (reading.outcome !== 'read') {
      return { outcome: 'refused', reason: reading.reason };
    }
    if (reading.faceValueSat < priceSat) {
      return {
        outcome: 'refused',
        reason: `The token is worth ${reading.faceValueSat} sat; the username costs ${priceSat} sat.`,
      };
    }
    return (await this.#hasFalseDleq(reading.proofs))
      ? { outcome: 'refused', reason: 'The token was not signed by this mint.' }
      : reading;
  }

  /** Only what a mint restores can be redeemed without a risk for the buyer (NUT-07, NUT-09). */
  async #requireRestoring(): Promise<void> {
    const mintUrl = this.#mintUrl;
    const known = await this.#infos.get(mintUrl);
    const info = known?.restoresEcash === true ? known : await this.#infos.refresh(mintUrl);
    if (info?.restoresEcash === true) {
      return;
    }
    if (info !== null) {
      const problem = 'the mint of usernames offers no NUT-07 and NUT-09: nobody can buy one';
      this.#log.error({ mintUrl }, problem);
    }
    throw mintTrouble();
  }

  async #readByKeysets(text: string): Promise<TokenReading> {
    const mintUrl = this.#mintUrl;
    const nowMs = this.#clock();
    const expected = { mintUrl, allowHttp: this.#allowHttpMints };
    const keysets = await this.#keysets.keysets(mintUrl);
    if (keysets === null) {
      throw mintTrouble();
    }
    const reading = readToken(text, { ...expected, keysets });
    if (reading.outcome !== 'unknown_keyset') {
      return reading;
    }
    // The mint may have a new one.
    const fresh = (await this.#keysets.refresh(mintUrl)) ?? keysets;
    const freshReading = readToken(text, { ...expected, keysets: fresh });
    if (freshReading.outcome === 'unknown_keyset' && !this.#keysets.hasHeardSince(mintUrl, nowMs)) {
      throw tooFreshKeyset();
    }
    return freshReading;
  }

  /** The mint's evidence is checked where it is there (NUT-12), one proof at a turn: each takes a while. */
  async #hasFalseDleq(proofs: readonly Proof[]): Promise<boolean> {
    for (const proof of proofs) {
      if (proof.dleq !== undefined) {
        const keys = await this.#keysets.keys(this.#mintUrl, proof.id);
        if (keys === null) {
          throw mintTrouble();
        }
        if (hasFalseDleq(proof, keys)) {
          return true;
        }
        await nextTurn();
      }
    }
    return false;
  }
}

/** The mint is not asked for its keysets at every token, and was not since this one came. */
function tooFreshKeyset(): Refusal {
  return new Refusal(
    'unavailable',
    'The token is of a keyset that its mint had not a moment ago; this request did not use it. Try again in' +
      ' some seconds.',
    Math.ceil(REFRESH_GAP_MS / 1000),
  );
}

/** What a payer is told where the mint does not do its part, and the token is as it was. */
export function mintTrouble(): Refusal {
  return new Refusal(
    'unavailable',
    'The mint does not answer as it should; this request did not use the token. Try again later.',
  );
}
