import { EventEmitter, on } from 'node:events';
import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';

/** A quote of the recipient's list (spec 2). */
export type ListedQuote = Awaited<ReturnType<NPCClient['getAllQuotes']>>[number];

/**
 * A recipient's wallet made of the libraries that wallets use: npubcash-sdk for the service, cashu-ts for the
 * mint. The key and the proofs are in memory only.
 */
export class DemoWallet {
  readonly npub: string;
  readonly #secretKey = generateSecretKey();
  readonly #client: NPCClient;
  readonly #mint: Wallet;
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
    this.#mint = new Wallet(mintUrl, { unit: 'sat', requireSigDleq: true });
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
    // The SDK also logs every change of a setting to the console.
    const { log } = console;
    console.log = () => {};
    try {
      // The types of the SDK's settings do not resolve in an ES module.
      const { data }: { data: { user: { lockQuote: boolean } } } =
        await this.#client.settings.setLock(true);
      if (!data.user.lockQuote) {
        throw new Error('locking is still off');
      }
    } finally {
      console.log = log;
    }
  }

  /** Returns the quote id of the next update, or of one that came since the last call. */
  async nextUpdate(): Promise<string> {
    const { value } = await this.#updates.next();
    return value[0];
  }

  async listedQuote(quoteId: string): Promise<ListedQuote> {
    const quote = (await this.#client.getAllQuotes()).find((each) => each.quoteId === quoteId);
    if (quote === undefined) {
      throw new Error('the quote is not in the list');
    }
    return quote;
  }

  /** Waits for the update after which the quote is listed as issued. */
  async listedAsIssued(quoteId: string): Promise<ListedQuote> {
    for (;;) {
      const quote = await this.listedQuote(await this.nextUpdate());
      if (quote.quoteId === quoteId && quote.state === 'ISSUED') {
        return quote;
      }
    }
  }

  /**
   * Mints the proofs of a paid quote, and keeps them. A locked quote is minted with the Nostr key (NUT-20).
   *
   * cashu-ts gets the quote id only: it compares the key of a whole quote with its own including the parity,
   * which a Nostr key does not have.
   */
  async collect({ quoteId, amount, locked }: ListedQuote): Promise<Proof[]> {
    await this.#mint.loadMint();
    const privkey = Buffer.from(this.#secretKey).toString('hex');
    const options = locked ? { privkey } : {};
    const proofs = await this.#mint.mintProofs('bolt11', amount, { quote: quoteId }, options);
    this.#proofs.push(...proofs);
    return proofs;
  }

  /** Returns all proofs, after the mint has confirmed that each is unspent (NUT-07). */
  async unspentProofs(): Promise<Proof[]> {
    const states = await this.#mint.checkProofsStates(this.#proofs);
    if (!states.every(({ state }) => state === CheckStateEnum.UNSPENT)) {
      throw new Error(`the proofs are: ${states.map(({ state }) => state).join(', ')}`);
    }
    return this.#proofs;
  }

  close(): void {
    this.#unsubscribe();
  }
}
