import { CheckStateEnum, type Proof } from '@cashu/cashu-ts';
import type { ChaosRates, ChaosSwitch } from '../../src/demo/test-mint/chaos.ts';
import type { MintStyle } from '../../src/demo/test-mint/switches.ts';
import { TestMint } from '../../src/demo/test-mint.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';

/** Each input of a swap costs a tenth of a sat, so that every redemption costs one. */
const INPUT_FEE_PPK = 100;

/** Most of all, the answer is lost after the work was done. */
const SWAPS: ChaosRates = {
  cutAfter: 0.12,
  garbage: 0.03,
  silenceAfter: 0.01,
  late: 0.55,
  error: 0.05,
  cutBefore: 0.02,
  silence: 0.005,
  rateLimit: 0.01,
};

const LOOKS: ChaosRates = {
  cutAfter: 0.06,
  garbage: 0.04,
  late: 0.3,
  error: 0.05,
  cutBefore: 0.04,
  silence: 0.01,
  rateLimit: 0.03,
};

/** A process that is told nothing of keysets sells nothing for five seconds: longer than most live. */
const FACTS: ChaosRates = { cutAfter: 0.01, garbage: 0.01, error: 0.01, late: 0.1 };

/** The routes by which payers get and spend their tokens stay well. */
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

/** The mint of a storm of purchases, and the wallet of everybody who gets tokens there. */
export class PurchaseMint {
  readonly mint: TestMint;
  #payer: EcashPayer;
  #rotating: Promise<void> = Promise.resolve();
  #isStorm = false;
  #calls = 0;

  static async open(seed: string, style: MintStyle): Promise<PurchaseMint> {
    const switches = { style, meltFeeReserveSat: 0, meltFeeSat: 0 };
    const mint = await TestMint.start({ seed, switches, inputFeePpk: INPUT_FEE_PPK });
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

  /** From now on everything goes wrong now and then. */
  startStorm(): void {
    this.#isStorm = true;
    this.#setChaos();
  }

  /** From now on nothing goes wrong. */
  endStorm(): void {
    this.#isStorm = false;
    this.#setChaos();
  }

  /** The mint gets a new keyset; tokens of the old one stay good. */
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

  /**
   * Spends proofs at the mint, by paying an invoice with them: that route never fails.
   *
   * @returns false where somebody else has spent them, or is about to
   */
  async spend(proofs: Proof[]): Promise<boolean> {
    const amountSat = proofs.reduce((sum, { amount }) => sum + amount.toNumber(), 0);
    const invoiceSat = amountSat - this.feeSat(proofs);
    return await this.#withPayer(async ({ wallet }) => {
      const invoice = await wallet.createMintQuoteBolt11(invoiceSat);
      const quote = await wallet.createMeltQuoteBolt11(invoice.request);
      try {
        await wallet.meltProofsBolt11(quote, proofs);
        return true;
      } catch (error) {
        if (/spent|pending/i.test(String(error))) {
          return false;
        }
        throw error;
      }
    });
  }

  /** What the mint keeps when these are spent together. */
  feeSat(proofs: Proof[]): number {
    return this.#payer.wallet.getFeesForProofs(proofs).toNumber();
  }

  /** Which of these are spent, as the mint says (NUT-07); nothing goes wrong meanwhile. */
  async spentOf(proofs: Proof[]): Promise<Proof[]> {
    const states = await this.#whileCalm(() => this.#payer.wallet.checkProofsStates(proofs));
    return proofs.filter((_proof, index) => states[index]?.state === CheckStateEnum.SPENT);
  }

  /**
   * Gives proofs for new ones, which the mint does for nothing but good ones.
   *
   * @throws where it does not
   */
  async redeem(proofs: Proof[]): Promise<void> {
    await this.#whileCalm(() => this.#payer.wallet.receive(proofs));
  }

  /** Once more where the keyset was rotated meanwhile. */
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
    this.#calls += 1;
    this.#setChaos();
    try {
      return await work();
    } finally {
      this.#calls -= 1;
      this.#setChaos();
    }
  }

  #setChaos(): void {
    this.mint.switches.chaos = this.#isStorm && this.#calls === 0 ? STORM : null;
  }
}
