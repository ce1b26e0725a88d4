import { EventEmitter, on } from 'node:events';
import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';

/** A quote as the service lists it (`GET /api/v2/wallet/quotes`). */
export type ListedQuote = Awaited<ReturnType<NPCClient['getAllQuotes']>>[number];

/**
 * A recipient's wallet built on the libraries that real wallets use: npubcash-sdk for the service and
 * cashu-ts for the mint. Keeps the key and the proofs in memory only.
 */
export class DemoWallet {
  readonly npub: string;
  readonly #secretKey = generateSecretKey();
  readonly #serviceClient: NPCClient;
  readonly #mintWallet: Wallet;
  readonly #events = new EventEmitter();
  readonly #updates = on(this.#events, 'update') as AsyncIterator<[quoteId: string]>;
  readonly #proofs: Proof[] = [];
  #closeQuoteSocket = () => {};

  /** @param origin the public origin of the service */
  constructor(origin: string, mintUrl: string) {
    this.npub = nip19.npubEncode(getPublicKey(this.#secretKey));
    const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
      finalizeEvent(event, this.#secretKey);
    this.#serviceClient = new NPCClient(origin, new JWTAuthProvider(origin, sign));
    this.#mintWallet = new Wallet(mintUrl, { unit: 'sat', requireSigDleq: true });
  }

  /** Opens the quote socket, and waits until the service has accepted the signed challenge. */
  async openQuoteSocket(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // The SDK reports the result of the challenge only to its logger.
    this.#serviceClient.setLogger({
      debug: (message: string) => {
        if (message === 'WebSocket challenge success') {
          resolve();
        }
      },
      info: () => {},
      warn: () => {},
      error: (message: string) => reject(new Error(message)),
    });
    this.#closeQuoteSocket = this.#serviceClient.subscribe(
      (quoteId) => this.#events.emit('update', quoteId),
      (message) => reject(new Error(message)),
    );
    await promise;
  }

  /** Locks future quotes to the wallet's key. */
  async lockQuotes(): Promise<void> {
    // The SDK logs every settings change to the console.
    const { log: originalLog } = console;
    console.log = () => {};
    try {
      // The SDK's types for settings do not resolve in an ES module.
      const { data }: { data: { user: { lockQuote: boolean } } } =
        await this.#serviceClient.settings.setLock(true);
      if (!data.user.lockQuote) {
        throw new Error('the service did not turn on locking');
      }
    } finally {
      console.log = originalLog;
    }
  }

  /** Returns the quote id of the next `update` message. Messages received between calls are queued. */
  async waitForUpdate(): Promise<string> {
    const { value } = await this.#updates.next();
    return value[0];
  }

  async getListedQuote(quoteId: string): Promise<ListedQuote> {
    const quote = (await this.#serviceClient.getAllQuotes()).find(
      (listed) => listed.quoteId === quoteId,
    );
    if (quote === undefined) {
      throw new Error('the quote is not listed');
    }
    return quote;
  }

  /** Reads the listed quote after each `update` message, until its state is `ISSUED`. */
  async waitUntilIssued(quoteId: string): Promise<ListedQuote> {
    for (;;) {
      const quote = await this.getListedQuote(await this.waitForUpdate());
      if (quote.quoteId === quoteId && quote.state === 'ISSUED') {
        return quote;
      }
    }
  }

  /**
   * Mints and stores the proofs of a paid quote. A locked quote needs a signature by the Nostr key (NUT-20).
   *
   * Passes only the quote id to cashu-ts. If cashu-ts gets the whole quote, it compares all 33 bytes of the
   * public key that locks the quote, but a Nostr key lacks the first byte.
   */
  async mintProofs({ quoteId, amount, locked }: ListedQuote): Promise<Proof[]> {
    await this.#mintWallet.loadMint();
    const privkey = Buffer.from(this.#secretKey).toString('hex');
    const options = locked ? { privkey } : {};
    const proofs = await this.#mintWallet.mintProofs('bolt11', amount, { quote: quoteId }, options);
    this.#proofs.push(...proofs);
    return proofs;
  }

  /** Returns all proofs. Throws unless the mint reports that every proof is unspent (NUT-07). */
  async getUnspentProofs(): Promise<Proof[]> {
    const states = await this.#mintWallet.checkProofsStates(this.#proofs);
    if (!states.every(({ state }) => state === CheckStateEnum.UNSPENT)) {
      throw new Error(`not all proofs are unspent: ${states.map(({ state }) => state).join(', ')}`);
    }
    return this.#proofs;
  }

  close(): void {
    this.#closeQuoteSocket();
  }
}
