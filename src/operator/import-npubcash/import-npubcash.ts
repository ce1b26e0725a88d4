import type { Clock } from '../../clock.ts';
import { isPaidState } from '../../quotes/quote.ts';
import { encodeUpdates, QUOTE_CHANNEL, RESCAN_CHANNEL } from '../../quotes/quote-channel.ts';
import { parseUsername } from '../../recipients/address.ts';
import { ADDRESS_CHANNEL, ALL_ADDRESSES } from '../../recipients/recipients.ts';
import type { Store, TransactionStore } from '../../store.ts';
import type { NpubcashBlock, NpubcashSource, NpubcashUser } from './npubcash-source.ts';
import { areOfOneSecond, keyOfQuote, planQuotes } from './plan-npubcash-quotes.ts';
import {
  isWithinReach,
  KeyReader,
  type OldQuote,
  readMintUrl,
  readNpubcashQuote,
  type SkipReason,
} from './read-npubcash.ts';

/** A transaction takes a fraction of a second, for which payments to its recipients wait. */
const QUOTES_PER_TRANSACTION = 500;

/** An import gives names only to keys without one, so it never releases a name. */
const NO_GRACE_MS = 0;

/** A row of the old server that is not imported, or not completely. */
interface SkippedRow {
  /** Its table and id, such as `mint_quotes 12`. */
  row: string;
  reason: SkipReason;
}

/** How many things of one kind were added, and how many were here before. */
export interface Tally {
  added: number;
  present: number;
}

/** What an import did. */
export interface NpubcashCounts {
  users: Tally;
  names: Tally;
  blocks: Tally;
  /** Quotes whose payment has arrived. */
  payments: Tally;
  /** All other quotes. */
  invoices: Tally;
  /** Added payments that are listed as paid now, because wallets would not see them at their own time. */
  redated: number;
  /** Added quotes that are watched from now on. */
  watched: number;
  skipped: Partial<Record<SkipReason, number>>;
}

/** How an import is run. */
export interface NpubcashImportOptions {
  /** Roll everything back, and report what an import would do. */
  isDry: boolean;
  /** Called with how many rows of this kind were read so far. */
  onProgress(kind: 'user' | 'quote', done: number): void;
  /** Called with skipped rows; the import continues when it resolves. */
  onSkipped(rows: readonly SkippedRow[]): Promise<void>;
  /** Ends the import after the current transaction. */
  signal: AbortSignal;
}

/** A row of `l_users` without the parts that cannot be imported. */
interface OldUser extends Omit<NpubcashUser, 'id'> {
  /** As in {@link SkippedRow}. */
  row: string;
  /** Hex. */
  pubkey: string;
}

interface Parts {
  store: Store;
  /** Whether this service sends requests to mints over plain http. */
  allowHttpMints: boolean;
  clock: Clock;
}

/**
 * Imports the users, names, blocks and quotes of a stopped npubcash server that are not here yet, in many short
 * transactions. It can be interrupted at any time and run again. Nothing that is here is replaced.
 *
 * @throws OperatorError if the source cannot be read, and the signal's reason if it is aborted
 */
export async function importNpubcash(
  parts: Parts,
  source: NpubcashSource,
  options: NpubcashImportOptions,
): Promise<NpubcashCounts> {
  const run = new ImportRun(parts, options);
  for await (const blocks of source.blocks()) {
    await run.importBlocks(blocks);
  }
  let users = 0;
  for await (const rows of source.users()) {
    await run.importUsers(rows);
    users += rows.length;
    options.onProgress('user', users);
  }
  await run.importQuotes(source);
  if (!options.isDry) {
    // The processes that watch the mints of these quotes may be others.
    await parts.store.transaction((tx) => tx.notify(RESCAN_CHANNEL, ['']));
  }
  return run.counts;
}

class ImportRun {
  readonly counts: NpubcashCounts = {
    users: { added: 0, present: 0 },
    names: { added: 0, present: 0 },
    blocks: { added: 0, present: 0 },
    payments: { added: 0, present: 0 },
    invoices: { added: 0, present: 0 },
    redated: 0,
    watched: 0,
    skipped: {},
  };
  readonly #parts: Parts;
  readonly #options: NpubcashImportOptions;
  readonly #keys = new KeyReader();
  /** Those of the current step. */
  #skipped: SkippedRow[] = [];

  constructor(parts: Parts, options: NpubcashImportOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /** Each block is imported once, so that a recipient whom the operator unblocks here is not blocked again. */
  async importBlocks(blocks: readonly NpubcashBlock[]): Promise<void> {
    await this.#step(async (tx) => {
      for (const block of blocks) {
        const row = `recipient_blocks ${JSON.stringify(block.pubkey)}`;
        const pubkey = this.#keys.read(block.pubkey);
        if (pubkey === null) {
          this.#skip(row, 'bad_pubkey');
          continue;
        }
        const imported = await tx.npubcash.findImported([row]);
        const isNew = !imported.has(row) && !(await tx.users.find(pubkey))?.block;
        count(this.counts.blocks, isNew);
        if (isNew) {
          await tx.users.block(pubkey, block.reason, block.createdAtMs ?? this.#parts.clock());
        }
        await tx.npubcash.markImported(row);
      }
      await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
    });
  }

  /**
   * Imports settings and names. Each row is imported once, so that what the user or the operator changes here
   * stays. A row that conflicts with what is here is tried again by the next import.
   */
  async importUsers(rows: readonly NpubcashUser[]): Promise<void> {
    await this.#step(async (tx) => {
      const users = rows.flatMap((row) => this.#readUser(row));
      await tx.users.lockPaymentCounters(users.map(({ pubkey }) => pubkey));
      const imported = await tx.npubcash.findImported(users.map(({ row }) => row));
      for (const user of users) {
        if (imported.has(user.row)) {
          count(this.counts.users, false);
          this.counts.names.present += user.name === null ? 0 : 1;
        } else if (await this.#importUser(tx, user)) {
          await tx.npubcash.markImported(user.row);
        }
      }
      await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
    });
  }

  /** Imports payments, each recipient's in their order, and then all other quotes, the oldest first. */
  async importQuotes(source: NpubcashSource): Promise<void> {
    const { allowHttpMints: allowHttp, clock } = this.#parts;
    const seen = new Set<string>();
    let batch: OldQuote[] = [];
    let done = 0;
    for await (const rows of source.quotes()) {
      for (const row of rows) {
        const quote = readNpubcashQuote(row, { keys: this.#keys, allowHttp, nowMs: clock() });
        if (typeof quote === 'string') {
          this.#skip(`mint_quotes ${row.id}`, quote);
          continue;
        }
        if (seen.has(keyOfQuote(quote))) {
          this.#skip(`mint_quotes ${row.id}`, 'same_quote_twice');
          continue;
        }
        seen.add(keyOfQuote(quote));
        if (batch.length >= QUOTES_PER_TRANSACTION && !areOfOneSecond(batch.at(-1), quote)) {
          await this.#importBatch(batch);
          batch = [];
        }
        batch.push(quote);
      }
      done += rows.length;
      this.#options.onProgress('quote', done);
    }
    await this.#importBatch(batch);
  }

  /** Runs one step in a transaction, which a dry run rolls back, and reports the rows that it skips. */
  async #step(work: (tx: TransactionStore) => Promise<void>): Promise<void> {
    const { isDry, onSkipped, signal } = this.#options;
    signal.throwIfAborted();
    await this.#parts.store.attempt(async (tx) => {
      await work(tx);
      return !isDry;
    });
    if (this.#skipped.length > 0) {
      await onSkipped(this.#skipped);
      this.#skipped = [];
    }
  }

  #skip(row: string, reason: SkipReason): void {
    this.#skipped.push({ row, reason });
    this.counts.skipped[reason] = (this.counts.skipped[reason] ?? 0) + 1;
  }

  /** @returns nothing for a row without a valid key, and no setting or name that is invalid */
  #readUser({ id, pubkey: oldKey, mintUrl: oldMintUrl, name: oldName, lockQuotes }: NpubcashUser) {
    const row = `l_users ${id}`;
    const pubkey = this.#keys.read(oldKey);
    if (pubkey === null) {
      this.#skip(row, 'bad_pubkey');
      return [];
    }
    let mintUrl = readMintUrl(oldMintUrl);
    if (oldMintUrl !== null && mintUrl === null) {
      this.#skip(row, 'bad_mint_url');
    } else if (mintUrl !== null && !isWithinReach(mintUrl, this.#parts.allowHttpMints)) {
      this.#skip(row, 'mint_out_of_reach');
      mintUrl = null;
    }
    const name = parseUsername(oldName ?? '');
    if (oldName !== null && name === null) {
      this.#skip(row, 'bad_name');
    }
    return [{ row, pubkey, mintUrl, name, lockQuotes }];
  }

  /**
   * Fills in what is not set here.
   *
   * @returns whether nothing is in conflict
   */
  async #importUser(tx: TransactionStore, old: OldUser): Promise<boolean> {
    const { pubkey, name } = old;
    const here = await tx.users.find(pubkey);
    const mintUrl = here?.mintUrl ?? old.mintUrl;
    const lockQuotes = here?.lockQuotes ?? old.lockQuotes;
    const nameHere = here?.name ?? null;
    const isNew = mintUrl !== (here?.mintUrl ?? null) || lockQuotes !== here?.lockQuotes;
    if (isNew) {
      await tx.users.save(pubkey, { lockQuotes, ...(mintUrl !== null && { mintUrl }) });
    }
    count(this.counts.users, isNew);
    const isKept = mintUrl !== (old.mintUrl ?? mintUrl) || lockQuotes !== old.lockQuotes;
    if (isKept) {
      this.#skip(old.row, 'settings_kept');
    }
    const claim = { pubkey, nowMs: this.#parts.clock(), graceMs: NO_GRACE_MS };
    if (name === null) {
      return !isKept;
    }
    if (nameHere !== null && nameHere !== name) {
      this.#skip(old.row, 'has_another_name');
      return false;
    }
    if (nameHere === null && !(await tx.usernames.take(name, claim))) {
      this.#skip(old.row, 'name_taken');
      return false;
    }
    count(this.counts.names, nameHere === null);
    return !isKept;
  }

  #importBatch(batch: readonly OldQuote[]): Promise<void> {
    return this.#step(async (tx) => {
      // Locked before the quotes are read: another import may be adding the same ones.
      const paidQuotes = batch.filter(({ state }) => isPaidState(state));
      const counters = await tx.users.lockPaymentCounters(paidQuotes.map(({ pubkey }) => pubkey));
      const present = new Set((await tx.npubcash.findPresent(batch)).map(keyOfQuote));
      const plan = planQuotes(batch, { present, counters }, this.#parts.clock());
      const paid = await tx.npubcash.addQuotes(plan.additions);
      await tx.users.savePaymentCounters(plan.counters);
      // A wallet reads its whole list after an update, so one for each recipient is enough.
      const updates = new Map(paid.map((row) => [row.pubkey, row]));
      await tx.notify(QUOTE_CHANNEL, encodeUpdates([...updates.values()]));
      const { payments, invoices } = this.counts;
      for (const { state, watchUntilMs } of plan.additions) {
        count(isPaidState(state) ? payments : invoices, true);
        this.counts.watched += watchUntilMs === null ? 0 : 1;
      }
      for (const { state } of plan.present) {
        count(isPaidState(state) ? payments : invoices, false);
      }
      this.counts.redated += plan.redated;
    });
  }
}

function count(tally: Tally, isNew: boolean): void {
  tally[isNew ? 'added' : 'present'] += 1;
}
