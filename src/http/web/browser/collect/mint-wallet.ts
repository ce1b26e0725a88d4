import {
  CheckStateEnum,
  deserializeProofs,
  getEncodedToken,
  type MeltPreview,
  type MeltQuoteBolt11Response,
  MeltQuoteState,
  MintOperationError,
  MintQuoteState,
  OutputData,
  type OutputDataLike,
  type Proof,
  serializeProofs,
  setGlobalRequestOptions,
  sumProofs,
  Wallet,
} from '@cashu/cashu-ts';
import { t } from '../translator.ts';
import {
  type Holding,
  isSpendable,
  isUnfinished,
  listCollectedQuotes,
  listHoldings,
  replaceHoldings,
  toQuoteKey,
} from './holdings.ts';
import { MAX_EXCHANGED_PROOFS, MAX_TOKEN_PROOFS, MINT_TIMEOUT_MS } from './limits.ts';

setGlobalRequestOptions({ requestTimeout: MINT_TIMEOUT_MS });

/** The mint has not yet decided. The page asks again later. */
class PaymentPendingError extends Error {}

/** The payment was not made, and the ecash is there again. */
export class PaymentFailedError extends Error {
  /** @param reason null: it was interrupted */
  constructor(reason: unknown) {
    super('The payment was not made.', { cause: reason });
  }
}

export class NotEnoughError extends Error {
  readonly maxPaymentSat: number;

  constructor(neededSat: number, maxPaymentSat: number) {
    super(t('collect.notEnough', { needed: neededSat, max: maxPaymentSat }));
    this.maxPaymentSat = maxPaymentSat;
  }
}

export interface PaymentOffer {
  quote: MeltQuoteBolt11Response;
  amountSat: number;
  /** The highest fee. What the mint does not use comes back. */
  maxFeeSat: number;
}

/**
 * The ecash of one user at one mint. Every request that creates or spends ecash is stored first, with the secrets of the
 * new ecash. If its outcome is unknown, it is looked up and repeated with the same secrets, so nothing is lost (ADR 43).
 */
export class MintWallet {
  readonly mintUrl: string;
  readonly #pubkey: string;
  readonly #wallet: Wallet;

  constructor(pubkey: string, mintUrl: string) {
    this.mintUrl = mintUrl;
    this.#pubkey = pubkey;
    this.#wallet = new Wallet(mintUrl, { unit: 'sat' });
  }

  /** Collects paid quotes. Stores why the mint refuses one. Throws if the mint does not answer. */
  async collect(quotes: readonly { quoteId: string; amount: number }[]): Promise<void> {
    await this.#runAlone(async () => {
      for (const { quoteId, amount } of quotes) {
        const id = toQuoteKey(this.mintUrl, quoteId);
        // Another tab may have been faster.
        if ((await listCollectedQuotes()).has(id)) {
          continue;
        }
        const stored = (await this.#list()).find((holding) => holding.id === id);
        const holding = stored ?? {
          ...this.#createHolding([]),
          id,
          quoteId,
          amountSat: amount,
          outputs: await this.#createMintOutputs(quoteId, amount),
        };
        await replaceHoldings([], [holding]);
        await this.#finishQuote(holding);
      }
    });
  }

  /** Finishes what was interrupted. Throws if the mint does not answer, or has not decided. */
  async resume(ids: ReadonlySet<string>): Promise<void> {
    await this.#runAlone(async () => {
      const holdings = (await this.#list()).filter(({ id }) => ids.has(id));
      for (const holding of holdings.filter(isUnfinished)) {
        if (holding.melt !== undefined) {
          await this.#finishPayment(holding, null);
        } else if (holding.quoteId !== undefined) {
          await this.#finishQuote(holding);
        } else {
          await this.#finishExchange(holding);
        }
      }
    });
  }

  /** Turns ecash into a token, which stays listed until it is spent. @param amountSat null: everything */
  async createToken(amountSat: number | null): Promise<void> {
    await this.#runAlone(async () => {
      let proofs = await this.#listProofs();
      if (amountSat !== null) {
        const exact = this.#wallet.selectProofsToSend(proofs, amountSat, false, true).send;
        proofs = exact.length > 0 ? exact : await this.#exchangeFor(amountSat, proofs);
      } else if (proofs.length > MAX_TOKEN_PROOFS) {
        await this.#exchangeAll(proofs);
        proofs = await this.#listProofs();
      }
      await this.#moveProofs(proofs, { isToken: true });
    });
  }

  /** Exchanges the ecash of a token, after which the token is worth nothing. */
  async takeBack({ id }: Holding): Promise<void> {
    await this.#runAlone(async () => {
      const token = (await this.#list()).find((holding) => holding.id === id && holding.isToken);
      if (token !== undefined) {
        await this.#finishExchange(await this.#prepareExchange(token));
      }
    });
  }

  /** Removes the tokens that have been spent. */
  async checkTokens(): Promise<void> {
    await this.#lock(async () => {
      const tokens = (await this.#list()).filter((holding) => holding.isToken && !holding.outputs);
      for (const token of tokens) {
        const { rest } = await this.#readStates(token);
        await replaceHoldings(rest.length === 0 ? [token] : [], []);
      }
    });
  }

  /** Asks the mint what paying an invoice costs. Throws if there is not enough ecash. */
  async quotePayment(invoice: string): Promise<PaymentOffer> {
    await this.#wallet.loadMint();
    if (!this.#wallet.getMintInfo().isSupported(8).supported) {
      throw new Error(t('collect.noChange'));
    }
    const quote = await this.#wallet.createMeltQuoteBolt11(invoice);
    const proofs = this.#selectForPayment(await this.#listProofs(), quote);
    const maxFeeSat = quote.fee_reserve.add(this.#wallet.getFeesForProofs(proofs)).toNumber();
    return { quote, amountSat: quote.amount.toNumber(), maxFeeSat };
  }

  /** Returns how much can be paid with all ecash if Lightning costs nothing. */
  async getMaxPaymentSat(): Promise<number> {
    await this.#wallet.loadMint();
    return this.#wallet.maxSpendableAfterFees(await this.#listProofs()).toNumber();
  }

  /** Pays an invoice. Throws if it was not paid; then the ecash is there again. @returns the fee in sats */
  async pay({ quote }: PaymentOffer): Promise<number> {
    return await this.#runAlone(async () => {
      const proofs = this.#selectForPayment(await this.#listProofs(), quote);
      const preview = await this.#wallet.prepareMelt('bolt11', quote, proofs);
      const changeOutputs = preview.outputData.map(OutputData.serialize);
      const melt = { quoteId: quote.quote, changeOutputs };
      const holding = await this.#moveProofs(proofs, { melt });
      const changeSat = await this.#finishPayment(holding, preview);
      return holding.amountSat - quote.amount.toNumber() - changeSat;
    });
  }

  /** No other tab changes this ecash meanwhile. */
  #lock<Result>(run: () => Promise<Result>): Promise<Result> {
    return navigator.locks.request(`ecash ${this.#pubkey} ${this.mintUrl}`, run);
  }

  #runAlone<Result>(run: () => Promise<Result>): Promise<Result> {
    return this.#lock(async () => {
      // The mint may have new keysets.
      await this.#wallet.loadMint(true);
      return await run();
    });
  }

  async #list(): Promise<Holding[]> {
    const holdings = await listHoldings(this.#pubkey);
    return holdings.filter(({ mintUrl }) => mintUrl === this.mintUrl);
  }

  async #listProofs(): Promise<Proof[]> {
    const holdings = (await this.#list()).filter(isSpendable);
    return deserializeProofs(holdings.flatMap(({ proofs }) => proofs));
  }

  #createHolding(proofs: readonly Proof[]): Holding {
    return {
      id: crypto.randomUUID(),
      pubkey: this.#pubkey,
      mintUrl: this.mintUrl,
      createdAtMs: Date.now(),
      amountSat: sumProofs([...proofs]).toNumber(),
      proofs: serializeProofs([...proofs]),
    };
  }

  /** Moves spendable proofs into a holding of their own. */
  async #moveProofs(proofs: readonly Proof[], purpose: Partial<Holding>): Promise<Holding> {
    const moved = { ...this.#createHolding(proofs), ...purpose };
    const secrets = new Set(proofs.map(({ secret }) => secret));
    const rest = (await this.#listProofs()).filter(({ secret }) => !secrets.has(secret));
    await replaceHoldings((await this.#list()).filter(isSpendable), [
      moved,
      ...(rest.length > 0 ? [this.#createHolding(rest)] : []),
    ]);
    return moved;
  }

  /** Collects a quote. Stores why the mint refuses it. */
  async #finishQuote(holding: Holding): Promise<void> {
    try {
      await this.#finishExchange(holding);
    } catch (error) {
      if (!(error instanceof MintOperationError)) {
        throw error;
      }
      const current = (await this.#list()).find(({ id }) => id === holding.id) ?? holding;
      await replaceHoldings([], [{ ...current, problem: error.message.slice(0, 200) }]);
    }
  }

  async #createMintOutputs(quoteId: string, amountSat: number) {
    // Without the expiry of the quote, because cashu-ts refuses expired ones, but some mints do not.
    const quote = { quote: quoteId };
    const { outputData } = await this.#wallet.prepareMint('bolt11', amountSat, quote);
    return outputData.map(OutputData.serialize);
  }

  /** Exchanges some proofs so that others are worth exactly an amount. Returns those. */
  async #exchangeFor(amountSat: number, proofs: Proof[]): Promise<Proof[]> {
    const preview = await this.#wallet.prepareSwapToSend(amountSat, proofs);
    const { sendOutputs = [], keepOutputs = [] } = preview;
    const outputs = [...sendOutputs, ...keepOutputs].map(OutputData.serialize);
    const holding = await this.#moveProofs(preview.inputs, { outputs });
    return (await this.#finishExchange(holding)).slice(0, sendOutputs.length);
  }

  async #exchangeAll(proofs: readonly Proof[]): Promise<void> {
    for (let start = 0; start < proofs.length; start += MAX_EXCHANGED_PROOFS) {
      const part = proofs.slice(start, start + MAX_EXCHANGED_PROOFS);
      const holding = await this.#moveProofs(part, await this.#createExchangeOutputs(part));
      await this.#finishExchange(holding);
    }
  }

  async #createExchangeOutputs(proofs: readonly Proof[]): Promise<Pick<Holding, 'outputs'>> {
    const { keepOutputs = [] } = await this.#wallet.prepareSwapToReceive([...proofs]);
    return { outputs: keepOutputs.map(OutputData.serialize) };
  }

  async #prepareExchange(holding: Holding): Promise<Holding> {
    const outputs = await this.#createExchangeOutputs(deserializeProofs(holding.proofs));
    const prepared = { ...holding, ...outputs };
    await replaceHoldings([holding], [prepared]);
    return prepared;
  }

  /**
   * Gets the signatures of a holding's outputs and stores the new proofs. Returns them; none if another wallet has taken
   * the money. Throws if the mint refuses or does not answer.
   */
  async #finishExchange(holding: Holding): Promise<Proof[]> {
    const outputs = (holding.outputs ?? []).map(OutputData.deserialize);
    const { quoteId, melt, isToken, outputs: _, problem: __, ...base } = holding;
    let proofs: Proof[];
    try {
      proofs = await this.#requestSignatures(holding, outputs);
    } catch (error) {
      const rethrow = () => {
        throw error;
      };
      // The mint may have acted on this request or an earlier one. The state is read first: if it has changed already
      // and the outputs are not signed even after that, the money was taken by another wallet.
      const { isTaken, isPending, rest } = await this.#readStates(holding).catch(rethrow);
      proofs = await this.#restore(outputs).catch(rethrow);
      if (proofs.length === 0 && isTaken) {
        if (melt !== undefined) {
          await this.#storeChange(holding, []);
        } else {
          const left = { ...base, ...(isToken && { isToken }), proofs: rest };
          await replaceHoldings([holding], rest.length > 0 ? [left] : []);
        }
        return [];
      }
      if (proofs.length === 0) {
        return await this.#handleRefusal(holding, isPending, error);
      }
      // A mint signs all outputs of a request or none.
      if (proofs.length < outputs.length) {
        throw error;
      }
    }
    const finished = this.#createHolding(proofs);
    await replaceHoldings([holding], [{ ...finished, id: base.id }]);
    return proofs;
  }

  /** Throws the error, or tries again with new outputs if the mint signs with other keys now. */
  async #handleRefusal(holding: Holding, isPending: boolean, error: unknown): Promise<Proof[]> {
    const { quoteId, amountSat, outputs = [], ...others } = holding;
    // The mint can never sign the old outputs any more.
    const isOutdated = outputs.some(
      ({ blindedMessage }) => !this.#wallet.keyChain.getKeyset(blindedMessage.id).isActive,
    );
    if (isOutdated && quoteId !== undefined) {
      const renewed = { ...holding, outputs: await this.#createMintOutputs(quoteId, amountSat) };
      await replaceHoldings([holding], [renewed]);
      return await this.#finishExchange(renewed);
    }
    if (
      quoteId === undefined &&
      !isPending &&
      (isOutdated || error instanceof MintOperationError)
    ) {
      // The mint has refused the exchange, so the old proofs are still worth what they were.
      await replaceHoldings([holding], [{ ...others, amountSat }]);
    }
    throw error;
  }

  async #requestSignatures(holding: Holding, outputs: OutputDataLike[]): Promise<Proof[]> {
    const { id: keysetId } = await this.#loadKeys(outputs);
    const { quoteId } = holding;
    if (quoteId !== undefined) {
      const payload = { quote: quoteId, outputs: outputs.map((output) => output.blindedMessage) };
      const quote = { quote: quoteId };
      const preview = { method: 'bolt11', payload, outputData: outputs, keysetId, quote };
      return await this.#wallet.completeMint(preview);
    }
    const inputs = deserializeProofs(holding.proofs);
    const amount = OutputData.sumOutputAmounts(outputs);
    const fees = sumProofs(inputs).subtract(amount);
    const preview = { amount, fees, keysetId, inputs, keepOutputs: outputs };
    return (await this.#wallet.completeSwap(preview)).keep;
  }

  /** Returns the proofs of those outputs that the mint has signed (NUT-09). */
  async #restore(outputs: readonly OutputDataLike[]): Promise<Proof[]> {
    const messages = outputs.map(({ blindedMessage }) => blindedMessage);
    const response = await this.#wallet.mint.restore({ outputs: messages });
    const keyset = await this.#loadKeys(outputs);
    return outputs.flatMap((output) => {
      const index = response.outputs.findIndex(({ B_ }) => B_ === output.blindedMessage.B_);
      const signature = response.signatures[index];
      return signature === undefined ? [] : [output.toProof(signature, keyset)];
    });
  }

  /** The mint may no longer sign with these keys, but its signatures are valid. */
  #loadKeys(outputs: readonly OutputDataLike[]) {
    const [first] = outputs;
    return this.#wallet.keyChain.ensureKeysetKeys(
      first?.blindedMessage.id ?? this.#wallet.keysetId,
    );
  }

  /** Reads whether a quote is issued, or proofs are spent. `rest` are the unspent proofs. */
  async #readStates({ quoteId, proofs }: Holding) {
    if (quoteId !== undefined) {
      const { state } = await this.#wallet.mint.checkMintQuoteBolt11(quoteId);
      return { isTaken: state === MintQuoteState.ISSUED, isPending: false, rest: [] };
    }
    const states = await this.#wallet.checkProofsStates(deserializeProofs(proofs));
    const rest = proofs.filter((_proof, index) => states[index]?.state !== CheckStateEnum.SPENT);
    const isPending = states.some(({ state }) => state === CheckStateEnum.PENDING);
    return { isTaken: rest.length < proofs.length, isPending, rest };
  }

  #selectForPayment(proofs: Proof[], { amount, fee_reserve }: MeltQuoteBolt11Response): Proof[] {
    const needed = amount.add(fee_reserve);
    const { send } = this.#wallet.selectProofsToSend(proofs, needed, true);
    if (send.length === 0) {
      const maxPayment = this.#wallet.maxSpendableAfterFees(proofs, fee_reserve);
      throw new NotEnoughError(needed.toNumber(), maxPayment.toNumber());
    }
    return send;
  }

  /** @param preview null: the payment was sent earlier, and is only looked up @returns the change in sats */
  async #finishPayment(holding: Holding, preview: MeltPreview | null): Promise<number> {
    let failure: unknown = null;
    let quote: Pick<MeltQuoteBolt11Response, 'state' | 'change'> | null = null;
    if (preview !== null) {
      try {
        quote = (await this.#wallet.completeMelt(preview)).quote;
      } catch (error) {
        failure = error;
      }
    }
    quote ??= await this.#wallet.mint
      .checkMeltQuoteBolt11(holding.melt?.quoteId ?? '')
      .catch((error: unknown) => {
        // The mint may have deleted the quote. Then the states of the proofs decide.
        if (error instanceof MintOperationError) {
          return { state: MeltQuoteState.UNPAID };
        }
        throw error;
      });
    if (quote.state === MeltQuoteState.PENDING) {
      throw new PaymentPendingError(t('collect.pending'));
    }
    if (quote.state === MeltQuoteState.PAID) {
      return await this.#storeChange(holding, quote.change ?? []);
    }
    // A late request could still pay with the old proofs. After an exchange it cannot.
    await this.#finishExchange(holding.outputs ? holding : await this.#prepareExchange(holding));
    throw new PaymentFailedError(failure);
  }

  /** Ends a payment that was made. @returns the change in sats */
  async #storeChange(
    holding: Holding,
    signatures: NonNullable<MeltQuoteBolt11Response['change']>,
  ): Promise<number> {
    const outputs = (holding.melt?.changeOutputs ?? []).map(OutputData.deserialize);
    await this.#loadKeys(outputs);
    const canRestore = this.#wallet.getMintInfo().isSupported(9).supported;
    const change =
      signatures.length > 0 || outputs.length === 0 || !canRestore
        ? this.#wallet.createMeltChangeProofs(outputs, signatures)
        : await this.#restore(outputs);
    const stored = this.#createHolding(change);
    await replaceHoldings([holding], change.length > 0 ? [stored] : []);
    return stored.amountSat;
  }
}

export function encodeToken({ mintUrl, proofs }: Holding): string {
  const content = { mint: mintUrl, unit: 'sat', proofs: deserializeProofs(proofs) };
  // Without the proofs of the signatures (NUT-12), which wallets do not need and which double the length.
  return getEncodedToken(content, { removeDleq: true });
}
