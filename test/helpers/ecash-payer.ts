import { getEncodedToken, type Proof, Wallet } from '@cashu/cashu-ts';
import type { TestMint } from '../../demo/test-mint.ts';

/** Somebody with ecash: a wallet of cashu-ts at a test mint, which pays its own invoices there. */
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

  /** New proofs, worth this many sats. */
  async proofs(amountSat: number): Promise<Proof[]> {
    const quote = await this.wallet.createMintQuoteBolt11(amountSat);
    this.#mint.pay(quote.request);
    return await this.wallet.mintProofsBolt11(amountSat, quote.quote);
  }

  async token(amountSat: number): Promise<string> {
    return this.encode(await this.proofs(amountSat));
  }

  /** A `cashuB` token of these proofs. */
  encode(proofs: Proof[]): string {
    return getEncodedToken({ mint: this.#mint.url, unit: 'sat', proofs });
  }

  /** What the mint says of a token's proofs (NUT-07): one state, or several where they differ. */
  async stateOf(token: string): Promise<string> {
    const { proofs } = this.wallet.decodeToken(token);
    const states = await this.wallet.checkProofsStates(proofs);
    return [...new Set(states.map(({ state }) => state))].join(', ');
  }
}
