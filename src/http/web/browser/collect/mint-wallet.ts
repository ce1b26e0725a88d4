import {
  Amount,
  CheckStateEnum,
  deserializeProofs,
  getEncodedToken,
  HttpResponseError,
  type MeltPreview,
  type MeltQuoteBolt11Response,
  MeltQuoteState,
  MintOperationError,
  MintQuoteState,
  NetworkError,
  OutputData,
  type OutputDataLike,
  type Proof,
  RateLimitError,
  serializeProofs,
  setGlobalRequestOptions,
  stripDleq,
  sumProofs,
  Wallet,
} from '@cashu/cashu-ts';
import { ExplainedError } from '../explained-error.ts';
import { t } from '../translator.ts';
import {
  type Holding,
  hasLapsed,
  isSpendable,
  isUnfinished,
  isUnpaid,
  listCollectedQuotes,
  listHoldings,
  replaceHoldings,
  toQuoteKey,
} from './holdings.ts';
import {
  DEFAULT_INVOICE_EXPIRY_MS,
  MAX_REQUEST_PROOFS,
  MAX_TOKEN_PROOFS,
  MINT_TIMEOUT_MS,
} from './limits.ts';

// Requests are repeated only after their outcome has been looked up. So cashu-ts must not repeat them (NUT-19).
setGlobalRequestOptions({ requestTimeout: MINT_TIMEOUT_MS, ttl: 0 });

/** The payment was not made, and the ecash is there again. */
export class PaymentFailedError extends Error {
  constructor(reason: unknown) {
    super('The payment was not made.', { cause: reason });
  }
}

export class NotEnoughError extends ExplainedError {
  readonly maxPaymentSat: number;

  constructor(neededSat: number, maxPaymentSat: number) {
    super(t('collect.notEnough', { needed: neededSat, max: maxPaymentSat }));
    this.maxPaymentSat = maxPaymentSat;
  }
}

export interface MadePayment {
  amountSat: number;
  feeSat: number;
}

export interface PaymentOffer {
  quote: MeltQuoteBolt11Response;
  amountSat: number;
  inputs: Proof[];
  /** What the mint does not use of it comes back. */
  maxFeeSat: number;
}

/**
 * The ecash of one user at one mint. Every request that creates or spends ecash is stored first, with the secrets of the
 * new ecash. If its outcome is unknown, it is looked up and repeated with the same secrets, so nothing is lost (ADR 43).
 *
 * Each action needs a new instance, because cashu-ts keeps to the keyset that it has chosen first.
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
      await tryEach(quotes, async ({ quoteId, amount }) => {
        const id = toQuoteKey(this.mintUrl, quoteId);
        // Another tab may have been faster.
        if ((await listCollectedQuotes()).has(id)) {
          return;
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
      });
      await this.#listFewProofs();
    });
  }

  /**
   * Finishes what was interrupted, collects invoices that are paid, and removes tokens that have been spent. Throws if the
   * mint does not answer, or has not decided.
   *
   * @param onPayment called for each payment whose outcome is now known. Null: it was not made
   */
  async refresh(
    ids: ReadonlySet<string>,
    onPayment: (payment: MadePayment | null) => void,
  ): Promise<void> {
    await this.#runAlone(async () => {
      const holdings = (await this.#list()).filter(({ id }) => ids.has(id));
      await tryEach(holdings, async (holding) => {
        if (holding.melt !== undefined) {
          onPayment(await this.#finishPayment(holding, null).catch(expectFailure));
        } else if (isUnpaid(holding)) {
          await this.#checkInvoice(holding);
        } else if (holding.quoteId !== undefined) {
          await this.#finishQuote(holding);
        } else if (holding.outputs !== undefined) {
          await this.#finishExchange(holding);
        } else if (holding.isToken && (await this.#readStates(holding)).rest.length === 0) {
          await replaceHoldings([holding], []);
        }
      });
    });
  }

  /** Stores an invoice, whose payment becomes a token that is to buy a username. */
  async createInvoice(
    amountSat: number,
    purpose: Pick<Holding, 'username' | 'replacedName'>,
  ): Promise<void> {
    await this.#wallet.loadMint();
    const { quote: quoteId, request, expiry } = await this.#wallet.createMintQuoteBolt11(amountSat);
    const expiresAtMs = expiry ? expiry * 1_000 : Date.now() + DEFAULT_INVOICE_EXPIRY_MS;
    const id = toQuoteKey(this.mintUrl, quoteId);
    // A mint that sends no text must not break the page.
    const invoice = { request: String(request), expiresAtMs };
    const holding = { ...this.#createHolding([]), id, quoteId, amountSat, invoice, ...purpose };
    await replaceHoldings([], [holding]);
  }

  /** Turns ecash into a token, which stays listed until it is spent. @param amountSat null: everything */
  async createToken(amountSat: number | null, purpose: Partial<Holding> = {}): Promise<Holding> {
    return await this.#runAlone(async () => {
      const proofs =
        amountSat === null
          ? await this.#listFewProofs(MAX_TOKEN_PROOFS)
          : await this.#getProofsFor(amountSat);
      // Another tab may have been faster.
      if (proofs.length === 0) {
        throw new ExplainedError(t('collect.empty'));
      }
      return await this.#moveProofs(proofs, { isToken: true, ...purpose });
    });
  }

  /** Exchanges the ecash of a token, after which the token is worth nothing. */
  async takeBack({ id }: Holding): Promise<void> {
    await this.#runAlone(async () => {
      const token = (await this.#list()).find((holding) => holding.id === id);
      // Another tab may have begun to take it back. New outputs would replace those that it has sent.
      if (token?.isToken && !isUnfinished(token)) {
        await this.#exchange(token);
      }
    });
  }

  /** Asks the mint what paying an invoice costs. Throws if there is not enough ecash. */
  async quotePayment(invoice: string): Promise<PaymentOffer> {
    return await this.#runAlone(async () => {
      if (!this.#wallet.getMintInfo().isSupported(8).supported) {
        throw new ExplainedError(t('collect.noChange'));
      }
      const quote = await this.#wallet.createMeltQuoteBolt11(invoice);
      const { amount, fee_reserve: reserve } = quote;
      const inputs = this.#select(await this.#listFewProofs(), amount, reserve);
      const maxFee = reserve.add(this.#wallet.getFeesForProofs(inputs));
      return { quote, amountSat: amount.toNumber(), inputs, maxFeeSat: maxFee.toNumber() };
    });
  }

  /** Returns how much can be paid with all ecash if Lightning costs nothing. */
  async getMaxPaymentSat(): Promise<number> {
    const proofs = await this.#runAlone(() => this.#listFewProofs());
    return this.#wallet.maxSpendableAfterFees(proofs).toNumber();
  }

  /**
   * Pays an invoice. Throws if it was not paid; then the ecash is there again, less what exchanging it has cost.
   *
   * @returns null if the outcome is not known yet; then {@link refresh} looks it up
   */
  async pay(offer: PaymentOffer): Promise<MadePayment | null> {
    const { quote, amountSat, inputs } = offer;
    return await this.#runAlone(async () => {
      const secrets = new Set((await this.#listProofs()).map(({ secret }) => secret));
      // Another tab may have been faster.
      if (!inputs.every(({ secret }) => secrets.has(secret))) {
        throw new ExplainedError(t('collect.ecashChanged'));
      }
      const preview = await this.#wallet.prepareMelt('bolt11', quote, inputs);
      const changeOutputs = preview.outputData.map(OutputData.serialize);
      const melt = { quoteId: quote.quote, amountSat, changeOutputs };
      const holding = await this.#moveProofs(inputs, { melt });
      try {
        return await this.#finishPayment(holding, preview);
      } catch (error) {
        if (error instanceof PaymentFailedError) {
          throw error;
        }
        return null;
      }
    });
  }

  /** No other tab changes this ecash meanwhile. */
  #runAlone<Result>(run: () => Promise<Result>): Promise<Result> {
    return navigator.locks.request(`ecash ${this.#pubkey} ${this.mintUrl}`, async () => {
      await this.#wallet.loadMint();
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

  /** Lists the proofs whose keyset the mint still knows, the largest first. */
  async #listUsableProofs(): Promise<Proof[]> {
    const proofs = await this.#listProofs();
    return proofs.filter(({ id }) => this.#wallet.keyChain.isUnitKeyset(id)).sort(largestFirst);
  }

  /**
   * Lists the largest proofs, at most those of one request, after exchanging all for fewer if they are too many. The
   * exchange costs the same input fee that spending them would.
   */
  async #listFewProofs(max = MAX_REQUEST_PROOFS): Promise<Proof[]> {
    let proofs = await this.#listUsableProofs();
    let previousCount = Infinity;
    // A mint may have no keys for large amounts, and the fee of small proofs may be more than their value.
    while (proofs.length > max && proofs.length <= previousCount / 2) {
      previousCount = proofs.length;
      for (let start = 0; start < previousCount; start += MAX_REQUEST_PROOFS) {
        const part = proofs.slice(start, start + MAX_REQUEST_PROOFS);
        if (!this.#wallet.maxSpendableAfterFees(part).isZero()) {
          await this.#exchange(await this.#moveProofs(part, {}));
        }
      }
      proofs = await this.#listUsableProofs();
    }
    return proofs.slice(0, MAX_REQUEST_PROOFS);
  }

  #createHolding(proofs: readonly Proof[]): Holding {
    return {
      id: crypto.randomUUID(),
      pubkey: this.#pubkey,
      mintUrl: this.mintUrl,
      createdAtMs: Date.now(),
      amountSat: sumProofs([...proofs]).toNumber(),
      // Without the proofs of the signatures (NUT-12). Wallets do not need them, they double the length of a token, and
      // cashu-ts cannot verify them if the keyset is inactive.
      proofs: serializeProofs(stripDleq([...proofs])),
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

  /** Collects an invoice that is paid, and forgets one that was not paid in time. */
  async #checkInvoice(holding: Holding): Promise<void> {
    const { quoteId = '', amountSat } = holding;
    const { isTaken, isPending } = await this.#readStates(holding).catch((error: unknown) => {
      // The mint may have deleted the quote.
      if (error instanceof MintOperationError) {
        return { isTaken: false, isPending: true };
      }
      throw error;
    });
    if (isTaken || !isPending) {
      const paid = { ...holding, outputs: await this.#createMintOutputs(quoteId, amountSat) };
      await replaceHoldings([], [paid]);
      await this.#finishQuote(paid);
    } else if (hasLapsed(holding)) {
      await replaceHoldings([holding], []);
    }
  }

  async #createMintOutputs(quoteId: string, amountSat: number) {
    // Without the expiry of the quote, because cashu-ts refuses expired ones, but some mints do not.
    const quote = { quote: quoteId };
    const { outputData } = await this.#wallet.prepareMint('bolt11', amountSat, quote);
    return outputData.map(OutputData.serialize);
  }

  /** Returns proofs that are worth exactly an amount, and not too many for a token. Exchanges others if there are none. */
  async #getProofsFor(amountSat: number): Promise<Proof[]> {
    const amount = Amount.from(amountSat);
    const proofs = await this.#listFewProofs();
    const exact = this.#wallet.selectProofsToSend(proofs, amount, false, true).send;
    if (exact.length > 0 && exact.length <= MAX_TOKEN_PROOFS) {
      return exact;
    }
    const selected = this.#select(proofs, amount);
    const preview = await this.#wallet.prepareSwapToSend(amountSat, selected);
    const { sendOutputs = [], keepOutputs = [] } = preview;
    const outputs = [...sendOutputs, ...keepOutputs].map(OutputData.serialize);
    const holding = await this.#moveProofs(preview.inputs, { outputs });
    return (await this.#finishExchange(holding, true)).slice(0, sendOutputs.length);
  }

  /** Exchanges the proofs of a holding for as few new ones as possible. Returns those. */
  async #exchange(holding: Holding): Promise<Proof[]> {
    const proofs = deserializeProofs(holding.proofs);
    if (this.#wallet.maxSpendableAfterFees(proofs).isZero()) {
      throw new NotEnoughError(this.#wallet.getFeesForProofs(proofs).toNumber(), 0);
    }
    const { keepOutputs = [] } = await this.#wallet.prepareSwapToReceive(proofs);
    const prepared = { ...holding, outputs: keepOutputs.map(OutputData.serialize) };
    await replaceHoldings([holding], [prepared]);
    return await this.#finishExchange(prepared, true);
  }

  /**
   * Gets the signatures of a holding's outputs and stores the new proofs. Returns them; none if all money is gone, to
   * another wallet or by a payment. Throws if the mint refuses or does not answer.
   *
   * @param isFirstRequest the outputs have never been sent before
   */
  async #finishExchange(holding: Holding, isFirstRequest = false): Promise<Proof[]> {
    const outputs = (holding.outputs ?? []).map(OutputData.deserialize);
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
        await this.#removeTaken(holding, rest);
        if (rest.length > 0) {
          throw error;
        }
        return [];
      }
      if (proofs.length === 0 && !isPending) {
        return await this.#handleRefusal(holding, isFirstRequest, error);
      }
      // A mint signs all outputs of a request or none.
      if (proofs.length < outputs.length) {
        throw error;
      }
    }
    const { id, quoteId, username, replacedName } = holding;
    const isInvoice = quoteId !== undefined && username !== undefined;
    const purpose = isInvoice
      ? { isToken: true, username, ...(replacedName && { replacedName }) }
      : {};
    await replaceHoldings([holding], [{ ...this.#createHolding(proofs), id, ...purpose }]);
    return proofs;
  }

  /** Keeps what another wallet has not taken. A payment that may have been made stays. */
  async #removeTaken(holding: Holding, rest: readonly string[]): Promise<void> {
    const { outputs, ...others } = holding;
    if (rest.length > 0) {
      const { amountSat, proofs } = this.#createHolding(deserializeProofs([...rest]));
      await replaceHoldings([holding], [{ ...others, amountSat, proofs }]);
    } else if (holding.melt === undefined) {
      await replaceHoldings([holding], []);
    }
  }

  /** Throws the error, or tries again with new outputs if the mint signs with other keys now. */
  async #handleRefusal(
    holding: Holding,
    isFirstRequest: boolean,
    error: unknown,
  ): Promise<Proof[]> {
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
    // After an earlier request without an answer, the outputs stay: that request may still arrive.
    // A mint, or a proxy in front of it, may have no code of NUT-00 for a request that is too long.
    const isRefused =
      isFirstRequest && error instanceof HttpResponseError && /^4/.test(`${error.status}`);
    if (quoteId === undefined && (isOutdated || isRefused)) {
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

  /** Reads whether a quote is issued, or proofs are spent, or may soon be. `rest` are the unspent proofs. */
  async #readStates({ quoteId, proofs }: Holding) {
    if (quoteId !== undefined) {
      const { state } = await this.#wallet.mint.checkMintQuoteBolt11(quoteId);
      const isTaken = state === MintQuoteState.ISSUED;
      return { isTaken, isPending: state !== MintQuoteState.PAID, rest: [] };
    }
    const states = await this.#wallet.checkProofsStates(deserializeProofs(proofs));
    const rest = proofs.filter((_proof, index) => states[index]?.state !== CheckStateEnum.SPENT);
    const isPending = states.some(({ state }) => state === CheckStateEnum.PENDING);
    return { isTaken: rest.length < proofs.length, isPending, rest };
  }

  /** Chooses proofs for an amount, a reserve, and the fee of the proofs. Throws if there are not enough. */
  #select(proofs: Proof[], amount: Amount, reserve = Amount.zero()): Proof[] {
    const needed = amount.add(reserve);
    const { send } = this.#wallet.selectProofsToSend(proofs, needed, true);
    if (send.length === 0) {
      const max = this.#wallet.maxSpendableAfterFees(proofs, reserve);
      throw new NotEnoughError(needed.toNumber(), max.toNumber());
    }
    return send;
  }

  /** @param preview null: the payment was sent earlier, and is only looked up */
  async #finishPayment(holding: Holding, preview: MeltPreview | null): Promise<MadePayment> {
    let failure: unknown = null;
    let quote: Pick<MeltQuoteBolt11Response, 'state' | 'change'> | null = null;
    if (preview !== null) {
      try {
        quote = (await this.#wallet.completeMelt(preview)).quote;
      } catch (error) {
        failure = error;
      }
    }
    quote ??= await this.#lookUpPayment(holding);
    if (quote.state === MeltQuoteState.PENDING) {
      throw new ExplainedError(t('collect.pending'));
    }
    // After an exchange has begun, that may have spent the inputs.
    if (quote.state === MeltQuoteState.PAID && holding.outputs === undefined) {
      return await this.#storeChange(holding, quote.change ?? []);
    }
    // A late request could still pay with the old proofs. After an exchange it cannot.
    const proofs = await (holding.outputs
      ? this.#finishExchange(holding)
      : this.#exchange(holding));
    if (proofs.length === 0) {
      // The inputs are spent, so the payment was made after all.
      return await this.#storeChange(holding, quote.change ?? []);
    }
    throw new PaymentFailedError(failure);
  }

  async #lookUpPayment(
    holding: Holding,
  ): Promise<Pick<MeltQuoteBolt11Response, 'state' | 'change'>> {
    const quote = await this.#wallet.mint
      .checkMeltQuoteBolt11(holding.melt?.quoteId ?? '')
      .catch((error: unknown) => {
        // The mint may have deleted the quote. Then the states of the proofs decide.
        if (error instanceof MintOperationError) {
          return { state: MeltQuoteState.UNPAID };
        }
        throw error;
      });
    // Some mints return the same quote for an invoice again. Then other proofs may have paid it.
    if (quote.state === MeltQuoteState.PAID && !(await this.#readStates(holding)).isTaken) {
      return { state: MeltQuoteState.UNPAID };
    }
    return quote;
  }

  /** Ends a payment that was made. */
  async #storeChange(
    holding: Holding,
    signatures: NonNullable<MeltQuoteBolt11Response['change']>,
  ): Promise<MadePayment> {
    const outputs = (holding.melt?.changeOutputs ?? []).map(OutputData.deserialize);
    await this.#loadKeys(outputs);
    const canRestore = this.#wallet.getMintInfo().isSupported(9).supported;
    const change =
      signatures.length > 0 || outputs.length === 0 || !canRestore
        ? this.#wallet.createMeltChangeProofs(outputs, signatures)
        : await this.#restore(outputs);
    const stored = this.#createHolding(change);
    await replaceHoldings([holding], change.length > 0 ? [stored] : []);
    const { amountSat = 0 } = holding.melt ?? {};
    return { amountSat, feeSat: holding.amountSat - amountSat - stored.amountSat };
  }
}

function largestFirst(a: Proof, b: Proof): number {
  return b.amount.compareTo(a.amount);
}

export function describePayment({ amountSat, feeSat }: MadePayment): string {
  return t('collect.paid', { amount: amountSat, fee: feeSat });
}

export function encodeToken({ mintUrl, proofs }: Holding): string {
  return getEncodedToken({ mint: mintUrl, unit: 'sat', proofs: deserializeProofs(proofs) });
}

function expectFailure(error: unknown): null {
  if (error instanceof PaymentFailedError) {
    return null;
  }
  throw error;
}

/** Does something with each item, although it fails for some, unless the mint does not answer. Throws the first error. */
async function tryEach<Item>(items: readonly Item[], run: (item: Item) => Promise<void>) {
  const errors: unknown[] = [];
  for (const item of items) {
    try {
      await run(item);
    } catch (error) {
      errors.push(error);
      if (error instanceof NetworkError || error instanceof RateLimitError) {
        break;
      }
    }
  }
  if (errors.length > 0) {
    throw errors[0];
  }
}
