import { getEncodedToken, type Proof, Wallet } from '@cashu/cashu-ts';
import type { TestMint } from '../../../demo/test-mint.ts';

/** A payer with a cashu-ts wallet, which mints the payer's ecash at a test mint. */
export class EcashPayer {
  readonly wallet: Wallet;
  readonly #mint: TestMint;

  static async open(mint: TestMint): Promise<EcashPayer> {
    const wallet = new Wallet(mint.url, { unit: 'sat' });
    await wallet.loadMint();
    return new EcashPayer(mint, wallet);
  }

  private constructor(mint: TestMint, wallet: Wallet) {
    this.#mint = mint;
    this.wallet = wallet;
  }

  async mintProofs(amountSat: number): Promise<Proof[]> {
    const quote = await this.wallet.createMintQuoteBolt11(amountSat);
    this.#mint.pay(quote.request);
    return await this.wallet.mintProofsBolt11(amountSat, quote.quote);
  }

  async mintToken(amountSat: number): Promise<string> {
    return this.encodeToken(await this.mintProofs(amountSat));
  }

  encodeToken(proofs: Proof[]): string {
    return getEncodedToken({ mint: this.#mint.url, unit: 'sat', proofs });
  }

  /** Returns the state of a token's proofs (NUT-07), or all states if they differ, separated by commas. */
  async fetchTokenState(token: string): Promise<string> {
    const { proofs } = this.wallet.decodeToken(token);
    const states = await this.wallet.checkProofsStates(proofs);
    return [...new Set(states.map(({ state }) => state))].join(', ');
  }
}
