import { EventEmitter, on } from 'node:events';
import { CheckStateEnum, type Proof, Wallet } from '@cashu/cashu-ts';
import { finalizeEvent, generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { JWTAuthProvider, type Logger, NPCClient } from 'npubcash-sdk';

/** A quote of the recipient's list (spec 2). */
export type ListedQuote = Awaited<ReturnType<NPCClient['getAllQuotes']>>[number];

/**
 * A recipient's wallet made of what its users have: npubcash-sdk talks to the service, cashu-ts to
 * the mint. The key and the proofs are in memory only.
 */
export class DemoWallet {
  readonly npub: string;
  readonly #secretKey = generateSecretKey();
  readonly #client: NPCClient;
  readonly #events = new EventEmitter();
  readonly #updates = on(this.#events, 'update') as AsyncIterator<[quoteId: string]>;
  readonly #holdings: { mintUrl: string; proof: Proof }[] = [];
  #unsubscribe = () => {};

  /** @param origin the public origin of the service */
  constructor(origin: string) {
    this.npub = nip19.npubEncode(getPublicKey(this.#secretKey));
    const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
      finalizeEvent(event, this.#secretKey);
    this.#client = new NPCClient(origin, new JWTAuthProvider(origin, sign));
  }

  /** Opens the quote socket; resolves once the service has accepted the signed challenge. */
  async listen(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#client.setLogger(subscriptionLogger(resolve, reject));
    this.#unsubscribe = this.#client.subscribe(
      (quoteId) => this.#events.emit('update', quoteId),
      (message) => reject(new Error(message)),
    );
    await promise;
  }

  /** Asks that future quotes be locked to the wallet's key. */
  async lockQuotes(): Promise<void> {
    // The SDK's own types of its settings do not resolve in a module of Node.
    const { data }: { data: { user: { lockQuote: boolean } } } = await withQuietConsole(() =>
      this.#client.settings.setLock(true),
    );
    if (!data.user.lockQuote) {
      throw new Error('locking is still off');
    }
  }

  /** The quote id of the next update, or of one that came since the last was taken. */
  async nextUpdate(): Promise<string> {
    const { value } = await this.#updates.next();
    return value[0];
  }

  /** A quote of the list. */
  async listedQuote(quoteId: string): Promise<ListedQuote> {
    const quote = (await this.#client.getAllQuotes()).find((one) => one.quoteId === quoteId);
    if (quote === undefined) {
      throw new Error('the quote is not in the list');
    }
    return quote;
  }

  /** Waits for the update after which the list says that the quote is issued. */
  async listedAsIssued(quoteId: string): Promise<ListedQuote> {
    for (;;) {
      if ((await this.nextUpdate()) === quoteId) {
        const quote = await this.listedQuote(quoteId);
        if (quote.state === 'ISSUED') {
          return quote;
        }
      }
    }
  }

  /**
   * Mints the proofs of a paid quote, and keeps them. A locked quote is minted with the Nostr key
   * (NUT-20).
   *
   * The quote is given as the list has it: cashu-ts compares the key of a quote that it fetches
   * itself with its own including the parity, which a Nostr key does not have.
   */
  async collect({ mintUrl, quoteId, amount, locked }: ListedQuote): Promise<Proof[]> {
    const mint = await openMint(mintUrl);
    const privkey = Buffer.from(this.#secretKey).toString('hex');
    const proofs = await mint.mintProofs(
      'bolt11',
      amount,
      { quote: quoteId },
      locked ? { privkey } : {},
    );
    this.#holdings.push(...proofs.map((proof) => ({ mintUrl, proof })));
    return proofs;
  }

  /** All proofs, once their mints have said that each is unspent (NUT-07). */
  async unspentProofs(): Promise<Proof[]> {
    for (const [mintUrl, holdings] of Map.groupBy(this.#holdings, ({ mintUrl }) => mintUrl)) {
      const mint = await openMint(mintUrl);
      const states = await mint.checkProofsStates(holdings.map(({ proof }) => proof));
      if (!states.every(({ state }) => state === CheckStateEnum.UNSPENT)) {
        throw new Error(`the mint says: ${states.map(({ state }) => state).join(', ')}`);
      }
    }
    return this.#holdings.map(({ proof }) => proof);
  }

  /** Leaves the quote socket. */
  close(): void {
    this.#unsubscribe();
  }
}

async function openMint(mintUrl: string): Promise<Wallet> {
  const mint = new Wallet(mintUrl, { unit: 'sat', requireSigDleq: true });
  await mint.loadMint();
  return mint;
}

/** The SDK tells nobody but its logger how the subscription went. */
function subscriptionLogger(onAccepted: () => void, onError: (error: Error) => void): Logger {
  return {
    debug: (message) => {
      if (message === 'WebSocket challenge success') {
        onAccepted();
      }
    },
    info: () => {},
    warn: () => {},
    error: (message) => onError(new Error(message)),
  };
}

/** The SDK writes every change of a setting, and every failure of one, to the console as well. */
async function withQuietConsole<T>(work: () => Promise<T>): Promise<T> {
  const { log, error } = console;
  console.log = () => {};
  console.error = () => {};
  try {
    return await work();
  } finally {
    Object.assign(console, { log, error });
  }
}
