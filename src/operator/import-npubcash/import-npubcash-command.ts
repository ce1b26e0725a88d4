import { parseArgs } from 'node:util';
import {
  encodeQuoteUpdates,
  QUOTE_UPDATES_CHANNEL,
  WATCH_RESCAN_CHANNEL,
} from '../../quotes/quote-notifications.ts';
import { isPaidQuoteState } from '../../quotes/quote-state.ts';
import { parseUsername } from '../../recipients/lightning-address.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import type { TransactionStore } from '../../store.ts';
import {
  type CommandContext,
  type CommandIo,
  createCommandResult,
  type OperatorCommand,
  UsageError,
} from '../command.ts';
import { formatCount, formatNumber, formatSat, joinLines } from '../format.ts';
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
    const [url = '', ...others] = positionals;
    if (!POSTGRES_URL.test(url) || others.length > 0) {
      throw new UsageError(
        'Give the URL of the npubcash database, such as postgres://user@host:5432/npubcash.',
      );
    }
    return async (context, io) => {
      await using stack = new AsyncDisposableStack();
      const source = stack.adopt(await NpubcashSource.open(url), (opened) => opened.close());
      const importer = new NpubcashImporter(context, io, values['dry-run']);
      await importer.run(source);
      const proofs = await source.readProofTotals();
      return createCommandResult(true, formatSummary(importer.summary, proofs, values['dry-run']));
    };
  },
};

/** A transaction takes a fraction of a second. Payments to its recipients wait that long. */
const QUOTES_PER_TRANSACTION = 500;

interface ImportCount {
  added: number;
  /** Already stored before this import. */
  existing: number;
}

/** A row of `l_users` with null for each setting that cannot be imported. */
type ParsedNpubcashUser = Omit<NpubcashUser, 'id'> & { sourceRow: string; pubkey: string };

/**
 * Imports the users, names, blocks and quotes of a stopped npubcash server in many short transactions. Never overwrites
 * stored data. An interrupted import continues when it is run again.
 */
class NpubcashImporter {
  readonly summary = {
    users: { added: 0, existing: 0 },
    names: { added: 0, existing: 0 },
    blocks: { added: 0, existing: 0 },
    /** Paid quotes. */
    payments: { added: 0, existing: 0 },
    /** All other quotes. */
    invoices: { added: 0, existing: 0 },
    /** Added payments that are listed as paid now, because wallets would miss them at their original time. */
    redatedCount: 0,
    /** Added quotes that the service watches. */
    watchedCount: 0,
    skippedByReason: {} as Partial<Record<SkipReason, number>>,
  };
  readonly #context: CommandContext;
  readonly #io: CommandIo;
  readonly #isDryRun: boolean;
  /** The output about the skipped rows of the current transaction. */
  #skippedLines = '';

  /** @param isDryRun rolls every transaction back */
  constructor(context: CommandContext, io: CommandIo, isDryRun: boolean) {
    this.#context = context;
    this.#io = io;
    this.#isDryRun = isDryRun;
  }

  /** @throws OperatorError if the source cannot be read, or the abort reason of the signal */
  async run(source: NpubcashSource): Promise<void> {
    for await (const blocks of source.readBlocks()) {
      await this.#importBlocks(blocks);
    }
    let users = 0;
    for await (const rows of source.readUsers()) {
      await this.#importUsers(rows);
      users += rows.length;
      this.#io.reportProgress(formatCount(users, 'user'));
    }
    await this.#importQuotes(source);
    if (!this.#isDryRun) {
      // Other processes may watch the mints of these quotes.
      await this.#context.store.transaction((tx) => tx.notify(WATCH_RESCAN_CHANNEL, ['']));
    }
  }

  /** Imports each block only once, so that a recipient whom the operator has unblocked stays unblocked. */
  async #importBlocks(blocks: readonly NpubcashBlock[]): Promise<void> {
    await this.#runTransaction(async (tx) => {
      for (const block of blocks) {
        const sourceRow = `recipient_blocks ${JSON.stringify(block.pubkey)}`;
        const pubkey = parseNpubcashPubkey(block.pubkey);
        if (pubkey === null) {
          this.#recordSkipped(sourceRow, 'bad_pubkey');
          continue;
        }
        const imported = await tx.npubcashImport.findImportedRows([sourceRow]);
        const isNew = !imported.has(sourceRow) && !(await tx.users.findByPubkey(pubkey))?.block;
        incrementCount(this.summary.blocks, isNew);
        if (isNew) {
          await tx.users.block(pubkey, block.reason, block.createdAtMs ?? this.#context.clock());
        }
        await tx.npubcashImport.markRowImported(sourceRow);
      }
      await tx.notify(RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
  }

  /**
   * Imports settings and names. Imports each row only once, so that later changes by the user or the operator stay. The
   * next import retries rows that conflict with stored data.
   */
  async #importUsers(rows: readonly NpubcashUser[]): Promise<void> {
    await this.#runTransaction(async (tx) => {
      const users = rows.flatMap((row) => this.#parseUser(row));
      await tx.users.lockPaymentCounters(users.map(({ pubkey }) => pubkey));
      const sourceRows = users.map(({ sourceRow }) => sourceRow);
      const imported = await tx.npubcashImport.findImportedRows(sourceRows);
      for (const user of users) {
        if (imported.has(user.sourceRow)) {
          incrementCount(this.summary.users, false);
          this.summary.names.existing += user.name === null ? 0 : 1;
        } else if (await this.#importUser(tx, user)) {
          await tx.npubcashImport.markRowImported(user.sourceRow);
        }
      }
      await tx.notify(RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
  }

  /** Imports the payments of each recipient in their order, then all other quotes, the oldest first. */
  async #importQuotes(source: NpubcashSource): Promise<void> {
    const { allowHttpMints: allowHttp, clock } = this.#context;
    const seen = new Set<string>();
    let batch: ParsedNpubcashQuote[] = [];
    let done = 0;
    for await (const rows of source.readQuotes()) {
      for (const row of rows) {
        const quote = parseNpubcashQuote(row, { allowHttp, nowMs: clock() });
        if (typeof quote === 'string') {
          this.#recordSkipped(`mint_quotes ${row.id}`, quote);
          continue;
        }
        if (seen.has(toQuoteKey(quote))) {
          this.#recordSkipped(`mint_quotes ${row.id}`, 'same_quote_twice');
          continue;
        }
        seen.add(toQuoteKey(quote));
        if (batch.length >= QUOTES_PER_TRANSACTION && !isSamePaidSecond(batch.at(-1), quote)) {
          await this.#importBatch(batch);
          batch = [];
        }
        batch.push(quote);
      }
      done += rows.length;
      this.#io.reportProgress(formatCount(done, 'quote'));
    }
    await this.#importBatch(batch);
  }

  /** Runs `work` in a transaction, which a dry run rolls back, and reports the skipped rows. */
  async #runTransaction(work: (tx: TransactionStore) => Promise<void>): Promise<void> {
    this.#io.signal.throwIfAborted();
    await this.#context.store.tryTransaction(async (tx) => {
      await work(tx);
      return !this.#isDryRun;
    });
    if (this.#skippedLines !== '') {
      await this.#io.write(this.#skippedLines);
      this.#skippedLines = '';
    }
  }

  /** @param sourceRow table and id, such as `mint_quotes 12` */
  #recordSkipped(sourceRow: string, reason: SkipReason): void {
    this.#skippedLines += `skipped ${sourceRow}: ${reason}\n`;
    this.summary.skippedByReason[reason] = (this.summary.skippedByReason[reason] ?? 0) + 1;
  }

  /** Returns an empty list if the key is invalid. Replaces an invalid setting or name by null. */
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
      this.#recordSkipped(sourceRow, 'mint_out_of_reach');
      mintUrl = null;
    }
    const name = parseUsername(row.name ?? '');
    if (row.name !== null && name === null) {
      this.#recordSkipped(sourceRow, 'bad_name');
    }
    return [{ sourceRow, pubkey, mintUrl, name, lockQuotes: row.lockQuotes }];
  }

  /** Fills in settings that are not stored yet. Returns false if the row conflicts with stored data. */
  async #importUser(tx: TransactionStore, sourceUser: ParsedNpubcashUser): Promise<boolean> {
    const { pubkey, name } = sourceUser;
    const storedUser = await tx.users.findByPubkey(pubkey);
    const mintUrl = storedUser?.mintUrl ?? sourceUser.mintUrl;
    const lockQuotes = storedUser?.lockQuotes ?? sourceUser.lockQuotes;
    const storedName = storedUser?.name ?? null;
    const isChanged =
      mintUrl !== (storedUser?.mintUrl ?? null) || lockQuotes !== storedUser?.lockQuotes;
    if (isChanged) {
      await tx.users.saveSettings(pubkey, { lockQuotes, ...(mintUrl !== null && { mintUrl }) });
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
    // The grace period is irrelevant: an import gives names only to keys without one, so it never releases a name.
    const claim = { pubkey, nowMs: this.#context.clock(), graceMs: 0 };
    if (storedName === null && !(await tx.usernames.assign(name, claim))) {
      this.#recordSkipped(sourceUser.sourceRow, 'name_taken');
      return false;
    }
    incrementCount(this.summary.names, storedName === null);
    return !hasConflictingSettings;
  }

  #importBatch(batch: readonly ParsedNpubcashQuote[]): Promise<void> {
    return this.#runTransaction(async (tx) => {
      // Lock before reading the quotes: another import may be adding the same quotes.
      const paidQuotes = batch.filter(({ state }) => isPaidQuoteState(state));
      const counters = await tx.users.lockPaymentCounters(paidQuotes.map(({ pubkey }) => pubkey));
      const existingQuotes = await tx.npubcashImport.findExistingQuotes(batch);
      const existingKeys = new Set(existingQuotes.map(toQuoteKey));
      const plan = planQuoteImport(batch, { existingKeys, counters }, this.#context.clock());
      const paid = await tx.npubcashImport.insertQuotes(plan.quotesToInsert);
      await tx.users.savePaymentCounters(plan.counters);
      // One update for each recipient is enough: a wallet then reads its whole list.
      const updates = new Map(paid.map((row) => [row.pubkey, row]));
      await tx.notify(QUOTE_UPDATES_CHANNEL, encodeQuoteUpdates([...updates.values()]));
      const { payments, invoices } = this.summary;
      for (const { state, watchUntilMs } of plan.quotesToInsert) {
        incrementCount(isPaidQuoteState(state) ? payments : invoices, true);
        this.summary.watchedCount += watchUntilMs === null ? 0 : 1;
      }
      for (const { state } of plan.existingQuotes) {
        incrementCount(isPaidQuoteState(state) ? payments : invoices, false);
      }
      this.summary.redatedCount += plan.redatedCount;
    });
  }
}

function incrementCount(count: ImportCount, isNew: boolean): void {
  count[isNew ? 'added' : 'existing'] += 1;
}

function formatSummary(
  summary: NpubcashImporter['summary'],
  proofs: readonly NpubcashProofTotal[],
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
    `${formatCount(summary.redatedCount, 'payment')} listed as paid now, because wallets would miss an earlier time.`,
    `${formatCount(summary.watchedCount, 'quote')} watched from now on.`,
    `${formatCount(payments.added + invoices.added, 'quote')} without a verification URL.`,
    skipped.length === 0 ? 'Nothing was skipped.' : 'Skipped:',
    ...skipped.map(
      ([reason, rows]) =>
        `  ${formatNumber(rows).padStart(9)}  ${reason}: ${SKIP_REASON_TEXTS[reason]}`,
    ),
    'Not imported:',
    ...proofs.map(
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
