import type { Clock } from '../../clock.ts';
import { type Db, type Tx, tryTransaction } from '../../database/transaction.ts';
import type { CommandIo } from '../process-io.ts';
import type { SkipReason } from './parse-npubcash-rows.ts';

/** Runs the transactions of an import, which overwrite no stored data, and counts what they do. */
export class ImportRun {
  readonly options: Readonly<{
    db: Db;
    io: CommandIo;
    clock: Clock;
    allowHttpMints: boolean;
    isDryRun: boolean;
    /** Whether to print the skipped rows. */
    printsRows: boolean;
  }>;
  readonly summary = {
    users: { added: 0, existing: 0 },
    names: { added: 0, existing: 0 },
    blocks: { added: 0, existing: 0 },
    payments: { added: 0, existing: 0 },
    invoices: { added: 0, existing: 0 },
    changedTimeCount: 0,
    watchedCount: 0,
    skippedByReason: {} as Partial<Record<SkipReason, number>>,
  };
  #skippedLines = '';

  constructor(options: ImportRun['options']) {
    this.options = options;
  }

  /** Runs `work` in a transaction, which a dry run rolls back. Then prints the skipped rows. */
  async transaction(work: (tx: Tx) => Promise<void>): Promise<void> {
    const { db, io, isDryRun, printsRows } = this.options;
    await tryTransaction(db, async (tx) => {
      await work(tx);
      return !isDryRun;
    });
    if (printsRows) {
      await io.write(this.#skippedLines);
    }
    this.#skippedLines = '';
  }

  count(kind: 'users' | 'names' | 'blocks' | 'payments' | 'invoices', isNew: boolean): void {
    this.summary[kind][isNew ? 'added' : 'existing'] += 1;
  }

  /** Records that a row is not imported. @param sourceRow the table and the id of the row, such as `mint_quotes 12` */
  skip(sourceRow: string, reason: SkipReason): void {
    this.#skippedLines += `skipped ${sourceRow}: ${reason}\n`;
    this.summary.skippedByReason[reason] = (this.summary.skippedByReason[reason] ?? 0) + 1;
  }
}
