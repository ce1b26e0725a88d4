import { CheckStateEnum, type Proof } from '@cashu/cashu-ts';
import type { ChaosRates, ChaosSwitch } from '../../../demo/test-mint/chaos.ts';
import type { MintStyle } from '../../../demo/test-mint/switches.ts';
import { TestMint } from '../../../demo/test-mint.ts';
import { EcashPayer } from '../../helpers/ecash-payer.ts';

/** Each input of a swap costs a tenth of a sat, so that every redemption costs one. */
const INPUT_FEE_PPK = 100;

/** Most often, the response is lost after the work was done. */
const SWAPS: ChaosRates = {
  cutAfter: 0.12,
  garbage: 0.03,
  silenceAfter: 0.01,
  late: 0.5,
  error: 0.1,
  cutBefore: 0.02,
  silence: 0.005,
  rateLimit: 0.01,
};

const LOOKS: ChaosRates = {
  cutAfter: 0.06,
  garbage: 0.04,
  late: 0.25,
  error: 0.1,
  cutBefore: 0.04,
  silence: 0.01,
  rateLimit: 0.03,
};

/** A process without keysets sells nothing for five seconds: longer than most processes live here. */
const FACTS: ChaosRates = { cutAfter: 0.01, garbage: 0.01, error: 0.01, late: 0.1 };

/** The routes by which payers get their tokens do not fail. */
const STORM: ChaosSwitch = {
  rates: {},
  ratesByRoute: {
    'POST /v1/swap': SWAPS,
    'POST /v1/checkstate': LOOKS,
    'POST /v1/restore': LOOKS,
    'GET /v1/info': FACTS,
    'GET /v1/keys': FACTS,
    'GET /v1/keys/:id': FACTS,
    'GET /v1/keysets': FACTS,
  },
};

/** The mint of the storm, and a wallet for everybody who needs tokens of it. */
export class PurchaseMint {
  readonly mint: TestMint;
  #payer: EcashPayer;
  #rotating: Promise<void> = Promise.resolve();
  #isStorm = false;
  #calmCalls = 0;

  static async open(seed: string, style: MintStyle): Promise<PurchaseMint> {
    const mint = await TestMint.start({ seed, switches: { style }, inputFeePpk: INPUT_FEE_PPK });
    return new PurchaseMint(mint, await EcashPayer.open(mint));
  }

  private constructor(mint: TestMint, payer: EcashPayer) {
    this.mint = mint;
    this.#payer = payer;
  }

  /** How often it was asked to redeem a token. */
  get swapCount(): number {
    return this.mint.requestCounts['POST /v1/swap'];
  }

  /** Starts or ends the faults. */
  setStorm(isStorm: boolean): void {
    this.#isStorm = isStorm;
    this.#setChaos();
  }

  /** Rotates the keyset; tokens of the old one stay valid. */
  async rotate(): Promise<void> {
    this.#rotating = this.#whileCalm(async () => {
      this.mint.rotateKeyset();
      this.#payer = await EcashPayer.open(this.mint);
    });
    await this.#rotating;
  }

  /** New proofs, worth this many sats. */
  async proofs(amountSat: number): Promise<Proof[]> {
    return await this.#withPayer((payer) => payer.proofs(amountSat));
  }

  /** A `cashuB` token. */
  encode(proofs: Proof[]): string {
    return this.#payer.encode(proofs);
  }

  /** Swaps proofs. @returns false if they are spent or pending */
  async spend(proofs: Proof[]): Promise<boolean> {
    try {
      await this.redeem(proofs);
      return true;
    } catch (error) {
      if (/spent|pending/i.test(String(error))) {
        return false;
      }
      throw error;
    }
  }

  /** What the mint keeps if these are spent together. */
  feeSat(proofs: Proof[]): number {
    return this.#payer.wallet.getFeesForProofs(proofs).toNumber();
  }

  /** Returns those that are spent (NUT-07). */
  async spentOf(proofs: Proof[]): Promise<Proof[]> {
    const states = await this.#whileCalm(() => this.#payer.wallet.checkProofsStates(proofs));
    return proofs.filter((_proof, index) => states[index]?.state === CheckStateEnum.SPENT);
  }

  /** Swaps proofs for new ones. @throws if one is not good */
  async redeem(proofs: Proof[]): Promise<void> {
    await this.#whileCalm(() => this.#withPayer(({ wallet }) => wallet.receive(proofs)));
  }

  /** Repeats the work if the keyset was rotated meanwhile. */
  async #withPayer<T>(work: (payer: EcashPayer) => Promise<T>): Promise<T> {
    for (;;) {
      const payer = this.#payer;
      try {
        return await work(payer);
      } catch (error) {
        await this.#rotating;
        if (payer === this.#payer) {
          throw error;
        }
      }
    }
  }

  async #whileCalm<T>(work: () => Promise<T>): Promise<T> {
    this.#calmCalls += 1;
    this.#setChaos();
    try {
      return await work();
    } finally {
      this.#calmCalls -= 1;
      this.#setChaos();
    }
  }

  #setChaos(): void {
    this.mint.switches.chaos = this.#isStorm && this.#calmCalls === 0 ? STORM : null;
  }
}
