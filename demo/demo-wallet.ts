import { EventEmitter, on } from 'node:events';
import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';

/** A quote in the recipient's list (spec.md section 2). */
export type ListedQuote = Awaited<ReturnType<NPCClient['getAllQuotes']>>[number];

/**
 * A recipient's wallet built on the libraries that real wallets use: npubcash-sdk for the service and
 * cashu-ts for the mint. Keeps the key and the proofs in memory only.
 */
export class DemoWallet {
  readonly npub: string;
  readonly #secretKey = generateSecretKey();
  readonly #client: NPCClient;
  readonly #mintWallet: Wallet;
  readonly #events = new EventEmitter();
  readonly #updates = on(this.#events, 'update') as AsyncIterator<[quoteId: string]>;
  readonly #proofs: Proof[] = [];
  #unsubscribe = () => {};

  /** @param origin the public origin of the service */
  constructor(origin: string, mintUrl: string) {
    this.npub = nip19.npubEncode(getPublicKey(this.#secretKey));
    const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
      finalizeEvent(event, this.#secretKey);
    this.#client = new NPCClient(origin, new JWTAuthProvider(origin, sign));
    this.#mintWallet = new Wallet(mintUrl, { unit: 'sat', requireSigDleq: true });
  }

  /** Opens the quote socket; resolves once the service has accepted the signed challenge. */
  async subscribe(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // The SDK reports the state of the subscription only to its logger.
    this.#client.setLogger({
      debug: (message: string) => {
        if (message === 'WebSocket challenge success') {
          resolve();
        }
      },
      info: () => {},
      warn: () => {},
      error: (message: string) => reject(new Error(message)),
    });
    this.#unsubscribe = this.#client.subscribe(
      (quoteId) => this.#events.emit('update', quoteId),
      (message) => reject(new Error(message)),
    );
    await promise;
  }

  /** Locks future quotes to the wallet's key. */
  async lockQuotes(): Promise<void> {
    // The SDK logs every settings change to the console.
    const { log } = console;
    console.log = () => {};
    try {
      // The SDK's types for settings do not resolve in an ES module.
      const { data }: { data: { user: { lockQuote: boolean } } } =
        await this.#client.settings.setLock(true);
      if (!data.user.lockQuote) {
        throw new Error('the service did not turn on locking');
      }
    } finally {
      console.log = log;
    }
  }

  /** Returns the quote id of the next update. Updates received between calls are queued. */
  async waitForUpdate(): Promise<string> {
    const { value } = await this.#updates.next();
    return value[0];
  }

  async getListedQuote(quoteId: string): Promise<ListedQuote> {
    const quote = (await this.#client.getAllQuotes()).find((each) => each.quoteId === quoteId);
    if (quote === undefined) {
      throw new Error('the quote is not listed');
    }
    return quote;
  }

  /** Waits for the update after which the quote is listed as issued. */
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
   * Passes only the quote id to cashu-ts: given a whole quote, it also compares the parity of the public
   * key, which a Nostr key does not have.
   */
  async mintProofs({ quoteId, amount, locked }: ListedQuote): Promise<Proof[]> {
    await this.#mintWallet.loadMint();
    const privkey = Buffer.from(this.#secretKey).toString('hex');
    const options = locked ? { privkey } : {};
    const proofs = await this.#mintWallet.mintProofs('bolt11', amount, { quote: quoteId }, options);
    this.#proofs.push(...proofs);
    return proofs;
  }

  /** Returns all proofs, after the mint has confirmed that each is unspent (NUT-07). */
  async getUnspentProofs(): Promise<Proof[]> {
    const states = await this.#mintWallet.checkProofsStates(this.#proofs);
    if (!states.every(({ state }) => state === CheckStateEnum.UNSPENT)) {
      throw new Error(`not all proofs are unspent: ${states.map(({ state }) => state).join(', ')}`);
    }
    return this.#proofs;
  }

  close(): void {
    this.#unsubscribe();
  }
}
