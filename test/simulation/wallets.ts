import type { NostrKey } from './recipients.ts';
import { Actor } from './scheduler.ts';
import type { SimulatedMint } from './simulated-mint.ts';
import { type ListedPage, type ListedQuote, WalletClient } from './wallet-client.ts';
import { openSession, type SocketSession } from './wallet-socket.ts';
import type { World } from './world.ts';

/** How existing wallets read the list. */
export const WALLET_KINDS = ['npubcash-sdk', 'coco', 'cdk', 'cashu.me', 'nutshell'] as const;

export type WalletKind = (typeof WALLET_KINDS)[number];

/** A wallet on one device: reads the list, listens for updates, and redeems what it finds. */
export class Wallet {
  readonly key: NostrKey;
  readonly kind: WalletKind;
  readonly actor: Actor;
  readonly client: WalletClient;
  readonly sessions: SocketSession[] = [];
  readonly known = new Map<string, ListedQuote>();
  /** Until then, it may have missed payments for a reason that the documents name. */
  mayMissUntilMs = -1;
  readonly #world: World;
  readonly #redeems: 'at once' | 'late' | 'never';
  readonly #usesSocket: boolean;
  readonly #redeemed = new Set<string>();
  #since: number | null = null;
  #lastTotal: number | null = null;
  #syncing: Promise<boolean> | null = null;
  #needsSync = false;
  #isConnected = false;

  constructor(world: World, name: string, key: NostrKey, kind: WalletKind) {
    this.#world = world;
    this.key = key;
    this.kind = kind;
    this.actor = new Actor(name);
    const { random } = world;
    const usesToken = !['cashu.me', 'nutshell'].includes(kind);
    this.client = new WalletClient(world, this.actor, key, usesToken);
    this.#redeems = random.pick(['at once', 'at once', 'late', 'never']);
    this.#usesSocket = ['npubcash-sdk', 'coco'].includes(kind) && random.chance(0.8);
  }

  /** @param settings what the user chooses in the wallet */
  start({ choosesMints, isLocking }: { choosesMints: boolean; isLocking: boolean }): void {
    const { scheduler, random, mints } = this.#world;
    const sleep = (lowMs: number, highMs: number) => scheduler.sleep(random.between(lowMs, highMs));
    scheduler.start(this.actor, async () => {
      await sleep(0, 2_000);
      do {
        const settings = { mint: choosesMints ? random.pick(mints) : null, isLocking };
        for (let attempt = 0; attempt < 20 && !(await this.#saveSettings(settings)); attempt += 1) {
          await sleep(5_000, 10_000);
        }
        await scheduler.sleep(random.exponential(20_000));
        // Later, when mints are gone for hours, it would only take time.
      } while (choosesMints && scheduler.nowMs < 3_600_000);
    });
    scheduler.start(this.actor, async () => {
      await sleep(0, 2_000);
      for (;;) {
        await this.sync();
        await sleep(30_000, 180_000);
      }
    });
    if (this.#usesSocket) {
      scheduler.start(this.actor, async () => {
        await sleep(0, 2_000);
        // The user opens the app now and then. Then it connects again.
        for (;;) {
          this.#connect();
          await sleep(60_000, 300_000);
        }
      });
    }
  }

  /** Reads new payments in the wallet's own way. Repeats if an update arrives meanwhile. Returns whether that succeeded. */
  async sync(): Promise<boolean> {
    this.#needsSync = true;
    this.#syncing ??= this.#syncUntilDone();
    return await this.#syncing;
  }

  /** Reads the whole list, as after an installation. */
  async readAll(): Promise<boolean> {
    return (await this.client.readPages(null)) !== null;
  }

  async #syncUntilDone(): Promise<boolean> {
    let hasSucceeded = true;
    while (this.#needsSync && hasSucceeded) {
      this.#needsSync = false;
      hasSucceeded = await this.#readNew();
    }
    this.#syncing = null;
    return hasSucceeded;
  }

  async #readNew(): Promise<boolean> {
    const pages = await this.#readPages();
    if (pages === null) {
      return false;
    }
    this.#rememberMisses(pages);
    const quotes = pages.flatMap((page) => page.quotes);
    if (this.kind === 'cdk') {
      const unfinished = [...this.known.values()].filter(({ state }) => state !== 'ISSUED');
      const ids = unfinished.map(({ quoteId }) => quoteId);
      quotes.push(...((ids.length > 0 && (await this.client.find(ids))) || []));
    }
    for (const quote of quotes) {
      // coco ignores quotes that are not later than its watermark.
      if (this.kind === 'coco' && quote.paidAt <= (this.#since ?? -1)) {
        continue;
      }
      this.known.set(quote.quoteId, quote);
      this.#redeem(quote);
    }
    this.#advanceWatermark(quotes);
    return true;
  }

  async #readPages(): Promise<ListedPage[] | null> {
    switch (this.kind) {
      case 'npubcash-sdk':
        return await this.client.readPages(null);
      case 'nutshell': {
        const page = await this.client.readPage(0, null);
        return page && [page];
      }
      case 'cashu.me':
        return await this.client.readPages(this.#since, { untilEmpty: true });
      default:
        return await this.client.readPages(this.#since);
    }
  }

  /** A page lists at most 50 payments. Others that are listed while a wallet reads page after page shift them (ADR 40). */
  #rememberMisses(pages: readonly ListedPage[]): void {
    const totals = pages.map(({ total }) => total);
    const [first = 0] = this.kind === 'nutshell' ? [this.#lastTotal ?? 0] : totals;
    this.#lastTotal = totals.at(-1) ?? 0;
    if (Math.max(...totals) - first > 50) {
      this.mayMissUntilMs = Math.max(this.mayMissUntilMs, this.#world.scheduler.nowMs);
    }
  }

  #advanceWatermark(quotes: readonly ListedQuote[]): void {
    const advance = (times: number[]) => {
      this.#since = times.length === 0 ? this.#since : Math.max(this.#since ?? 0, ...times);
    };
    if (this.kind === 'coco') {
      advance(quotes.map(({ paidAt }) => paidAt));
    } else if (this.kind === 'cdk') {
      advance(quotes.map(({ createdAt }) => createdAt));
      // The clock was set back by more than five seconds (ADR 40). Payments are missed until it shows the watermark again.
      if (quotes.some(({ createdAt, paidAt }) => createdAt > paidAt)) {
        this.mayMissUntilMs = Number.POSITIVE_INFINITY;
      }
    } else if (this.kind === 'cashu.me') {
      advance(quotes.map(({ paidAt }) => paidAt - 1));
    }
  }

  #redeem({ quoteId, mintUrl, state, locked }: ListedQuote): void {
    const { scheduler, random, mints } = this.#world;
    const hasKey = this.kind === 'cdk' || this.kind === 'npubcash-sdk';
    if (
      state !== 'PAID' ||
      this.#redeems === 'never' ||
      this.#redeemed.has(quoteId) ||
      (locked && !hasKey)
    ) {
      return;
    }
    this.#redeemed.add(quoteId);
    const mint = mints.find(({ url }) => url === mintUrl);
    const delayMs =
      this.#redeems === 'late' ? random.exponential(300_000) : random.between(50, 500);
    const redeem = () => {
      if (mint?.actor.isAlive) {
        scheduler.start(mint.actor, async () => void (await mint.issue(quoteId)));
      } else {
        scheduler.schedule(REDEEM_RETRY_MS, redeem, this.actor);
      }
    };
    scheduler.schedule(delayMs, redeem, this.actor);
  }

  #connect(attempt = 0): void {
    if (this.#isConnected) {
      return;
    }
    this.#isConnected = true;
    const { scheduler, random } = this.#world;
    const session = openSession(this.#world, this.actor, this.key, this.client.address, {
      onAuthenticated: (authenticated) => void this.#syncAtStart(authenticated),
      onUpdate: () => void this.sync(),
      onClose: (hadError) => {
        this.#isConnected = false;
        // npubcash-sdk leaves that to the app, and coco reconnects only after an error.
        if (hadError && this.kind === 'coco') {
          const pauseMs = Math.min(1_000 * 2 ** attempt, 30_000) * random.between(0.5, 1);
          scheduler.schedule(pauseMs, () => this.#connect(attempt + 1), this.actor);
        }
      },
    });
    this.sessions.push(session);
  }

  async #syncAtStart(session: SocketSession): Promise<void> {
    const { scheduler, referee } = this.#world;
    const startedAtMs = scheduler.nowMs;
    // A list that may be late does not show what will be announced.
    if ((await this.sync()) && referee.isListCurrent(startedAtMs)) {
      session.knownAtStart = new Set(this.known.keys());
    }
  }

  /** Returns whether all settings are saved. */
  async #saveSettings({ mint, isLocking }: { mint: SimulatedMint | null; isLocking: boolean }) {
    const requestedAtMs = this.#world.scheduler.nowMs;
    if (mint !== null) {
      const body = { mint_url: mint.url };
      if (!(await this.#save('/api/v2/user/mint', body, { requestedAtMs, mint }))) {
        return false;
      }
    }
    const lockBody = { lockQuotes: true };
    return (
      !isLocking ||
      (await this.#save('/api/v2/user/lock', lockBody, { requestedAtMs, isLocking: true }))
    );
  }

  async #save(
    path: string,
    body: object,
    setting: { requestedAtMs: number; mint?: SimulatedMint; isLocking?: boolean },
  ): Promise<boolean> {
    const { truth, scheduler } = this.#world;
    const confirm = truth.addSetting(this.key.pubkey, setting);
    const response = await this.client.request({ method: 'PATCH', path, body });
    if (response !== null) {
      confirm(scheduler.nowMs);
    }
    return response !== null;
  }
}

/** While the mint is gone. */
const REDEEM_RETRY_MS = 60_000;
