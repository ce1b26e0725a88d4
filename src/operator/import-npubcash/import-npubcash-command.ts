import { recordAuditEvent } from '../../recipients/audit-store.ts';
import { defineCommand, UsageError } from '../command.ts';
import { formatCount, formatNumber, formatSat } from '../format.ts';
import { importQuotes } from './import-quotes.ts';
import { ImportRun } from './import-run.ts';
import { importBlocks, importUsers } from './import-users.ts';
import { NpubcashSource } from './npubcash-source.ts';
import { SKIP_REASON_TEXTS, type SkipReason } from './parse-npubcash-rows.ts';

export const importNpubcashCommand = defineCommand({
  name: 'import-npubcash',
  synopsis: '<database url> [--dry-run]',
  description:
    'imports the users, names, blocks and quotes of an npubcash server; stop that server first. If it is interrupted, run it again to continue. Prints each skipped row (except with --json) and a summary; --dry-run changes nothing',
  options: { 'dry-run': 'flag' },
  operands: [['<database url>', parseUrl]],
  run: async ({ config, systemUser, ...context }, { 'dry-run': isDryRun, json }, [url], io) => {
    await using source = await NpubcashSource.connect(url);
    await source.beginAndCheckTables();
    const allowHttpMints = config.allowPrivateNetworks;
    const run = new ImportRun({ ...context, allowHttpMints, io, isDryRun, printsRows: !json });
    const audit = { systemUser, action: 'import-npubcash', atMs: context.clock() };
    const after = { server: URL.parse(url)?.host };
    // One event for all users, as of `nutpost import`.
    await run.transaction((tx) => recordAuditEvent(tx, { ...audit, after }));
    await importBlocks(run, source);
    await importUsers(run, source);
    await importQuotes(run, source);
    const { summary } = run;
    const proofs = await source.readProofTotals();
    const outcome = isDryRun ? 'would_be_imported' : 'imported';
    return {
      isSuccess: true,
      json: { outcome, ...summary, notImported: { proofs } },
      lines: summaryToLines(summary, proofs, isDryRun),
    };
  },
});

function parseUrl(text: string): string {
  if (!/^postgres(?:ql)?:\/\//.test(text)) {
    throw new UsageError(
      'Give the URL of the npubcash database, such as postgres://user@host:5432/npubcash.',
    );
  }
  return text;
}

function summaryToLines(
  summary: ImportRun['summary'],
  proofs: Awaited<ReturnType<NpubcashSource['readProofTotals']>>,
  isDryRun: boolean,
): string[] {
  const { users, names, blocks, payments, invoices } = summary;
  const format = ({ added, existing }: typeof users) =>
    `${formatNumber(added)} new, ${formatNumber(existing)} already here`;
  const skipped = Object.entries(summary.skippedByReason) as [SkipReason, number][];
  return [
    isDryRun ? 'An import would add (nothing was changed):' : 'Imported:',
    `  Users     ${format(users)}`,
    `  Names     ${format(names)}`,
    `  Blocks    ${format(blocks)}`,
    `  Payments  ${format(payments)}`,
    `  Invoices  ${format(invoices)} (not paid)`,
    `${formatCount(summary.changedTimeCount, 'payment')} listed as paid now, because wallets would miss an earlier time.`,
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
  ];
}
