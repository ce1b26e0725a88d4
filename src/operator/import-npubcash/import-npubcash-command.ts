import { parseArgs } from 'node:util';
import {
  encodeQuoteUpdates,
  QUOTE_UPDATES_CHANNEL,
  WATCH_RESCAN_CHANNEL,
} from '../../quotes/process-notifications.ts';
import { isPaidQuoteState } from '../../quotes/quote-state.ts';
import { parseUsername } from '../../recipients/lightning-address.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import {
  blockUser,
  findUserByPubkey,
  lockPaymentCounters,
  savePaymentCounters,
  saveUserSettings,
} from '../../recipients/user-store.ts';
import type { TransactionStore } from '../../store.ts';
import { claimUsername } from '../../usernames/username-store.ts';
import {
  type CommandContext,
  type CommandIo,
  createCommandResult,
  type OperatorCommand,
  UsageError,
} from '../command.ts';
import { formatCount, formatNumber, formatSat, joinLines } from '../format.ts';
import {
  findExistingQuotes,
  findImportedRows,
  insertImportedQuotes,
  markRowImported,
} from './npubcash-import-store.ts';
import {
  type NpubcashBlock,
  type NpubcashProofTotal,
  NpubcashSource,
  type NpubcashUser,
} from './npubcash-source.ts';
import {
  isMintUrlAllowed,
  type ParsedNpubcashQuote,
  parseNpubcashMintUrl,
  parseNpubcashPubkey,
  parseNpubcashQuote,
  SKIP_REASON_TEXTS,
  type SkipReason,
} from './parse-npubcash-rows.ts';
import { isSamePaidSecond, planQuoteImport, toQuoteKey } from './plan-quote-import.ts';

const POSTGRES_URL = /^postgres(?:ql)?:\/\//;

export const importNpubcashCommand: OperatorCommand = {
  name: 'import-npubcash',
  usage: `  import-npubcash <database url> [--dry-run]
           imports the users, names, blocks and quotes of an npubcash server; stop that server first.
           If it is interrupted, run it again to continue. Prints each skipped row and a summary;
           --dry-run changes nothing
`,
  parse: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { 'dry-run': { type: 'boolean', default: false } },
      allowPositionals: true,
    });
    const isDryRun = values['dry-run'];
    const [url = ''] = positionals;
    if (!POSTGRES_URL.test(url) || positionals.length > 1) {
      throw new UsageError(
        'Give the URL of the npubcash database, such as postgres://user@host:5432/npubcash.',
      );
    }
    return async (context, io) => {
      await using source = await NpubcashSource.open(url);
      const importer = new NpubcashImporter(context, io, isDryRun);
      await importer.importAll(source);
      const proofTotals = await source.readProofTotals();
      return createCommandResult(true, formatSummary(importer.summary, proofTotals, isDryRun));
    };
  },
};

/** One transaction takes a fraction of a second. New payments to its recipients are recorded after it. */
const QUOTES_PER_TRANSACTION = 500;

interface ImportCount {
  added: number;
  /** Already stored before this import. */
  existing: number;
}

/** A row of `l_users`, in which settings that cannot be imported are null. */
type ParsedNpubcashUser = Omit<NpubcashUser, 'id'> & { sourceRow: string; pubkey: string };

/**
 * Imports the users, names, blocks and quotes of a stopped npubcash server in many short transactions. Never
 * overwrites stored data. After an interruption, the next run continues the import.
 */
class NpubcashImporter {
  readonly summary = {
    users: { added: 0, existing: 0 },
    names: { added: 0, existing: 0 },
    blocks: { added: 0, existing: 0 },
    /** The paid quotes. */
    payments: { added: 0, existing: 0 },
    /** All other quotes. */
    invoices: { added: 0, existing: 0 },
    /** Added payments that are listed as paid now, because wallets would miss them at their time at npubcash. */
    changedTimeCount: 0,
    /** Added quotes that the service watches. */
    watchedCount: 0,
    skippedByReason: {} as Partial<Record<SkipReason, number>>,
  };
  readonly #context: CommandContext;
  readonly #io: CommandIo;
  readonly #isDryRun: boolean;
  /** Output about the rows that the current transaction has skipped. */
  #skippedLines = '';

  /** @param isDryRun whether to roll every transaction back */
  constructor(context: CommandContext, io: CommandIo, isDryRun: boolean) {
    this.#context = context;
    this.#io = io;
    this.#isDryRun = isDryRun;
  }

  /** @throws OperatorError if the source cannot be read, or the abort reason of `io.signal` */
  async importAll(source: NpubcashSource): Promise<void> {
    for await (const blocks of source.readBlocks()) {
      await this.#importBlocks(blocks);
    }
    let userCount = 0;
    for await (const rows of source.readUsers()) {
      await this.#importUsers(rows);
      userCount += rows.length;
      this.#io.reportProgress(formatCount(userCount, 'user'));
    }
    await this.#importQuotes(source);
    if (!this.#isDryRun) {
      // Other processes, which watch the mints of these quotes, then start to watch the quotes too.
      await this.#context.store.transaction((tx) => tx.notify(WATCH_RESCAN_CHANNEL, ['']));
    }
  }

  /** Imports each block only once, so that a later import does not block a recipient whom the operator unblocked. */
  async #importBlocks(blocks: readonly NpubcashBlock[]): Promise<void> {
    await this.#runTransaction(async (tx) => {
      for (const block of blocks) {
        const sourceRow = `recipient_blocks ${JSON.stringify(block.pubkey)}`;
        const pubkey = parseNpubcashPubkey(block.pubkey);
        if (pubkey === null) {
          this.#recordSkipped(sourceRow, 'bad_pubkey');
          continue;
        }
        const imported = await findImportedRows(tx.tx, [sourceRow]);
        const isNew = !imported.has(sourceRow) && !(await findUserByPubkey(tx.tx, pubkey))?.block;
        incrementCount(this.summary.blocks, isNew);
        if (isNew) {
          await blockUser(tx.tx, pubkey, block.reason, block.createdAtMs ?? this.#context.clock());
        }
        await markRowImported(tx.tx, sourceRow);
      }
      await tx.notify(RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
  }

  /**
   * Imports settings and names. Imports each row only once, so that a later import does not revert changes by the
   * user or the operator. The next import retries rows that conflict with stored data.
   */
  async #importUsers(rows: readonly NpubcashUser[]): Promise<void> {
    await this.#runTransaction(async (tx) => {
      const users = rows.flatMap((row) => this.#parseUser(row));
      await lockPaymentCounters(
        tx.tx,
        users.map(({ pubkey }) => pubkey),
      );
      const sourceRows = users.map(({ sourceRow }) => sourceRow);
      const imported = await findImportedRows(tx.tx, sourceRows);
      for (const user of users) {
        if (imported.has(user.sourceRow)) {
          incrementCount(this.summary.users, false);
          this.summary.names.existing += user.name === null ? 0 : 1;
        } else if (await this.#importUser(tx, user)) {
          await markRowImported(tx.tx, user.sourceRow);
        }
      }
      await tx.notify(RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
  }

  /** Imports the payments of each recipient in the order of payment, then all other quotes, the oldest first. */
  async #importQuotes(source: NpubcashSource): Promise<void> {
    const { allowHttpMints: allowHttp, clock } = this.#context;
    const seenKeys = new Set<string>();
    let batch: ParsedNpubcashQuote[] = [];
    let readCount = 0;
    for await (const rows of source.readQuotes()) {
      for (const row of rows) {
        const quote = parseNpubcashQuote(row, { allowHttp, nowMs: clock() });
        if (typeof quote === 'string') {
          this.#recordSkipped(`mint_quotes ${row.id}`, quote);
          continue;
        }
        if (seenKeys.has(toQuoteKey(quote))) {
          this.#recordSkipped(`mint_quotes ${row.id}`, 'same_quote_twice');
          continue;
        }
        seenKeys.add(toQuoteKey(quote));
        // planQuoteImport needs all payments of the same second in one transaction.
        if (batch.length >= QUOTES_PER_TRANSACTION && !isSamePaidSecond(batch.at(-1), quote)) {
          await this.#importBatch(batch);
          batch = [];
        }
        batch.push(quote);
      }
      readCount += rows.length;
      this.#io.reportProgress(formatCount(readCount, 'quote'));
    }
    await this.#importBatch(batch);
  }

  /** Runs `importRows` in a transaction, which a dry run rolls back. Then reports the skipped rows. */
  async #runTransaction(importRows: (tx: TransactionStore) => Promise<void>): Promise<void> {
    this.#io.signal.throwIfAborted();
    await this.#context.store.tryTransaction(async (tx) => {
      await importRows(tx);
      return !this.#isDryRun;
    });
    if (this.#skippedLines !== '') {
      await this.#io.write(this.#skippedLines);
      this.#skippedLines = '';
    }
  }

  /** @param sourceRow the table and the id of the row, such as `mint_quotes 12` */
  #recordSkipped(sourceRow: string, reason: SkipReason): void {
    this.#skippedLines += `skipped ${sourceRow}: ${reason}\n`;
    this.summary.skippedByReason[reason] = (this.summary.skippedByReason[reason] ?? 0) + 1;
  }

  /** Returns the user, or an empty list if the key is invalid. Replaces an invalid setting or name by null. */
  #parseUser(row: NpubcashUser): ParsedNpubcashUser[] {
    const sourceRow = `l_users ${row.id}`;
    const pubkey = parseNpubcashPubkey(row.pubkey);
    if (pubkey === null) {
      this.#recordSkipped(sourceRow, 'bad_pubkey');
      return [];
    }
    let mintUrl = parseNpubcashMintUrl(row.mintUrl);
    if (row.mintUrl !== null && mintUrl === null) {
      this.#recordSkipped(sourceRow, 'bad_mint_url');
    } else if (mintUrl !== null && !isMintUrlAllowed(mintUrl, this.#context.allowHttpMints)) {
      this.#recordSkipped(sourceRow, 'mint_url_not_allowed');
      mintUrl = null;
    }
    const name = parseUsername(row.name ?? '');
    if (row.name !== null && name === null) {
      this.#recordSkipped(sourceRow, 'bad_name');
    }
    return [{ sourceRow, pubkey, mintUrl, name, lockQuotes: row.lockQuotes }];
  }

  /** Stores settings and a name unless the user already has them. Returns false if the row conflicts with them. */
  async #importUser(tx: TransactionStore, sourceUser: ParsedNpubcashUser): Promise<boolean> {
    const { pubkey, name } = sourceUser;
    const storedUser = await findUserByPubkey(tx.tx, pubkey);
    const mintUrl = storedUser?.mintUrl ?? sourceUser.mintUrl;
    const lockQuotes = storedUser?.lockQuotes ?? sourceUser.lockQuotes;
    const storedName = storedUser?.name ?? null;
    const isChanged =
      mintUrl !== (storedUser?.mintUrl ?? null) || lockQuotes !== storedUser?.lockQuotes;
    if (isChanged) {
      await saveUserSettings(tx.tx, pubkey, { lockQuotes, ...(mintUrl !== null && { mintUrl }) });
    }
    incrementCount(this.summary.users, isChanged);
    const hasConflictingSettings =
      mintUrl !== (sourceUser.mintUrl ?? mintUrl) || lockQuotes !== sourceUser.lockQuotes;
    if (hasConflictingSettings) {
      this.#recordSkipped(sourceUser.sourceRow, 'settings_kept');
    }
    if (name === null) {
      return !hasConflictingSettings;
    }
    if (storedName !== null && storedName !== name) {
      this.#recordSkipped(sourceUser.sourceRow, 'has_another_name');
      return false;
    }
    // The grace period does not matter: the key has no other name that this would release.
    const claim = { pubkey, nowMs: this.#context.clock(), graceMs: 0 };
    if (storedName === null && !(await claimUsername(tx.tx, name, claim))) {
      this.#recordSkipped(sourceUser.sourceRow, 'name_taken');
      return false;
    }
    incrementCount(this.summary.names, storedName === null);
    return !hasConflictingSettings;
  }

  #importBatch(batch: readonly ParsedNpubcashQuote[]): Promise<void> {
    return this.#runTransaction(async (tx) => {
      // Locks the counters before reading the quotes, because another import may be adding the same quotes.
      const paidQuotes = batch.filter(({ state }) => isPaidQuoteState(state));
      const counters = await lockPaymentCounters(
        tx.tx,
        paidQuotes.map(({ pubkey }) => pubkey),
      );
      const existingQuotes = await findExistingQuotes(tx.tx, batch);
      const existingKeys = new Set(existingQuotes.map(toQuoteKey));
      const plan = planQuoteImport(batch, { existingKeys, counters }, this.#context.clock());
      const insertedPayments = await insertImportedQuotes(tx.tx, plan.quotesToInsert);
      await savePaymentCounters(tx.tx, plan.counters);
      // One update for each recipient is enough, because the wallet then reads its whole list.
      const updates = new Map(insertedPayments.map((row) => [row.pubkey, row]));
      await tx.notify(QUOTE_UPDATES_CHANNEL, encodeQuoteUpdates([...updates.values()]));
      const { payments, invoices } = this.summary;
      for (const { state, watchUntilMs } of plan.quotesToInsert) {
        incrementCount(isPaidQuoteState(state) ? payments : invoices, true);
        this.summary.watchedCount += watchUntilMs === null ? 0 : 1;
      }
      for (const { state } of plan.existingQuotes) {
        incrementCount(isPaidQuoteState(state) ? payments : invoices, false);
      }
      this.summary.changedTimeCount += plan.changedTimeCount;
    });
  }
}

function incrementCount(count: ImportCount, isNew: boolean): void {
  count[isNew ? 'added' : 'existing'] += 1;
}

function formatSummary(
  summary: NpubcashImporter['summary'],
  proofTotals: readonly NpubcashProofTotal[],
  isDryRun: boolean,
): string {
  const { users, names, blocks, payments, invoices } = summary;
  const skipped = Object.entries(summary.skippedByReason) as [SkipReason, number][];
  return joinLines(
    isDryRun ? 'An import would add (nothing was changed):' : 'Imported:',
    `  Users     ${formatImportCount(users)}`,
    `  Names     ${formatImportCount(names)}`,
    `  Blocks    ${formatImportCount(blocks)}`,
    `  Payments  ${formatImportCount(payments)}`,
    `  Invoices  ${formatImportCount(invoices)} (not paid)`,
    `${formatCount(summary.changedTimeCount, 'payment')} listed as paid now, because wallets would miss an earlier time.`,
    `${formatCount(summary.watchedCount, 'quote')} watched from now on.`,
    `${formatCount(payments.added + invoices.added, 'quote')} without a verification URL.`,
    skipped.length === 0 ? 'Nothing was skipped.' : 'Skipped:',
    ...skipped.map(
      ([reason, rows]) =>
        `  ${formatNumber(rows).padStart(9)}  ${reason}: ${SKIP_REASON_TEXTS[reason]}`,
    ),
    'Not imported:',
    ...proofTotals.map(
      ({ state, proofCount, amountSat }) =>
        `  proofs: ${formatCount(proofCount, 'row')}, ${formatSat(amountSat)}, ${state ?? 'no state'}` +
        ' (your earnings; withdraw them with npubcash)',
    ),
    '  all other tables',
  );
}

function formatImportCount({ added, existing }: ImportCount): string {
  return `${formatNumber(added)} new, ${formatNumber(existing)} already here`;
}
