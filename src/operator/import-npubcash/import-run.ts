import type { Clock } from '../../clock.ts';
import { type Db, type Tx, tryTransaction } from '../../database/transaction.ts';
import type { CommandIo } from '../command.ts';
import type { SkipReason } from './parse-npubcash-rows.ts';

interface ImportRunOptions {
  db: Db;
  io: CommandIo;
  clock: Clock;
  allowHttpMints: boolean;
  /** Whether to roll every transaction back. */
  isDryRun: boolean;
}

interface ImportCount {
  added: number;
  existing: number;
}

export type ImportSummary = ImportRun['summary'];

/**
 * One run of the import, in many short transactions. It never overwrites stored data, so after an interruption the
 * next run continues.
 */
export class ImportRun {
  readonly options: Readonly<ImportRunOptions>;
  readonly summary = {
    users: createCount(),
    names: createCount(),
    blocks: createCount(),
    payments: createCount(),
    invoices: createCount(),
    /** Added payments that are listed as paid now, because wallets would miss them at their time at npubcash. */
    changedTimeCount: 0,
    watchedCount: 0,
    skippedByReason: {} as Partial<Record<SkipReason, number>>,
  };
  #skippedLines = '';

  constructor(options: ImportRunOptions) {
    this.options = options;
  }

  /** Runs `work` in a transaction, which a dry run rolls back. Then prints the skipped rows. */
  async transaction(work: (tx: Tx) => Promise<void>): Promise<void> {
    const { db, io, isDryRun } = this.options;
    io.signal.throwIfAborted();
    await tryTransaction(db, async (tx) => {
      await work(tx);
      return !isDryRun;
    });
    await io.write(this.#skippedLines);
    this.#skippedLines = '';
  }

  count(kind: 'users' | 'names' | 'blocks' | 'payments' | 'invoices', isNew: boolean): void {
    this.summary[kind][isNew ? 'added' : 'existing'] += 1;
  }

  /** @param sourceRow the table and the id of the row, such as `mint_quotes 12` */
  skip(sourceRow: string, reason: SkipReason): void {
    this.#skippedLines += `skipped ${sourceRow}: ${reason}\n`;
    this.summary.skippedByReason[reason] = (this.summary.skippedByReason[reason] ?? 0) + 1;
  }
}

function createCount(): ImportCount {
  return { added: 0, existing: 0 };
}
