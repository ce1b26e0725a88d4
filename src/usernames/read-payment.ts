import { setImmediate as nextTurn } from 'node:timers/promises';
import { Refusal } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Proof } from '../mints/ecash.ts';
import type { KeysetCache } from '../mints/keyset-cache.ts';
import type { MintInfoCache } from '../mints/mint-info-cache.ts';
import { hasFalseDleq } from './ecash/proofs.ts';
import { readToken, type TokenReading } from './ecash/token.ts';

/** A token that can be redeemed, as far as can be known without redeeming it. */
export interface Payment {
  outcome: 'read';
  proofs: Proof[];
  faceValueSat: number;
}

interface Parts {
  /** The only mint whose ecash is accepted, normalised. */
  mintUrl: string;
  infos: Pick<MintInfoCache, 'get' | 'refresh'>;
  keysets: Pick<KeysetCache, 'keysets' | 'refresh' | 'keys'>;
  allowHttpMints: boolean;
  log: Log;
}

/** Reads tokens that pay for something at one mint. */
export class ReadPayment {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * Reads a token (NUT-00). If it cannot pay, the reason is one sentence for the payer.
   *
   * @param priceSat the least face value; the payer does not pay the mint's fee
   * @throws Refusal (unavailable) if the mint does not provide what is needed to check the token
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

  /** Redeeming is a risk for the buyer unless the mint can restore ecash (NUT-07, NUT-09). */
  async #requireRestoring(): Promise<void> {
    const { mintUrl, infos, log } = this.#parts;
    const known = await infos.get(mintUrl);
    const info = known?.restoresEcash === true ? known : await infos.refresh(mintUrl);
    if (info?.restoresEcash === true) {
      return;
    }
    if (info !== null) {
      log.error(
        { mintUrl },
        'the mint of usernames offers no NUT-07 and NUT-09: nobody can buy one',
      );
    }
    throw mintTrouble();
  }

  async #readByKeysets(text: string): Promise<TokenReading> {
    const { mintUrl, allowHttpMints: allowHttp, keysets: cache } = this.#parts;
    const keysets = await cache.keysets(mintUrl);
    if (keysets === null) {
      throw mintTrouble();
    }
    const reading = readToken(text, { mintUrl, allowHttp, keysets });
    if (reading.outcome !== 'unknown_keyset') {
      return reading;
    }
    // The keyset may be new.
    const fresh = (await cache.refresh(mintUrl)) ?? keysets;
    return readToken(text, { mintUrl, allowHttp, keysets: fresh });
  }

  /** Checks the signature proofs that the token contains (NUT-12), each in a turn of the event loop: they are slow. */
  async #hasFalseDleq(proofs: readonly Proof[]): Promise<boolean> {
    for (const proof of proofs) {
      if (proof.dleq !== undefined) {
        const keys = await this.#parts.keysets.keys(this.#parts.mintUrl, proof.id);
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

/** The mint does not work, and the token was not used. */
export function mintTrouble(): Refusal {
  return new Refusal(
    'unavailable',
    'The mint does not answer as it should; this request did not use the token. Try again later.',
  );
}
