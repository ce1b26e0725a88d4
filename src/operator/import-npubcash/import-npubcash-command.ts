import { parseArgs } from 'node:util';
import { answer, type OperatorCommand, UsageError } from '../command.ts';
import { count, lines, number } from '../format.ts';
import { importNpubcash, type NpubcashCounts, type Tally } from './import-npubcash.ts';
import { type NpubcashProofs, NpubcashSource } from './npubcash-source.ts';
import type { SkipReason } from './read-npubcash.ts';

const POSTGRES_URL = /^postgres(?:ql)?:\/\//;

/** `nutpost import-npubcash`: imports the database of a stopped npubcash server. */
export const importNpubcashCommand: OperatorCommand = {
  name: 'import-npubcash',
  usage: `  import-npubcash <database url> [--dry-run]
           imports the users, names, blocks and quotes of an npubcash server; stop that server first.
           After an interruption, run it again: it continues. Prints each row that it skips, and a
           summary; --dry-run changes nothing
`,
  read: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { 'dry-run': { type: 'boolean', default: false } },
      allowPositionals: true,
    });
    const [url = '', ...others] = positionals;
    if (!POSTGRES_URL.test(url) || others.length > 0) {
      throw new UsageError(
        'Give the URL of the database of npubcash, such as postgres://user@host:5432/npubcash.',
      );
    }
    return async (parts, terminal) => {
      await using stack = new AsyncDisposableStack();
      const source = stack.adopt(await NpubcashSource.open(url), (opened) => opened.close());
      const counts = await importNpubcash(parts, source, {
        isDry: values['dry-run'],
        onProgress: (kind, done) => terminal.progress(count(done, kind)),
        onSkipped: (rows) =>
          terminal.write(rows.map(({ row, reason }) => `skipped ${row}: ${reason}\n`).join('')),
        signal: terminal.signal,
      });
      return answer(true, summaryText(counts, await source.proofs(), values['dry-run']));
    };
  },
};

const REASONS: Readonly<Record<SkipReason, string>> = {
  bad_pubkey: 'the pubkey is not a Nostr key',
  bad_mint_url: 'the mint URL is not valid (of a user, the rest is imported)',
  bad_quote_id: 'the quote id is not valid',
  bad_amount: 'the amount is not a positive number of sats',
  bad_name: 'the name is not valid here; the rest of the user is imported',
  other_unit: 'the unit is not sat',
  unknown_state: 'the state is unknown',
  no_invoice: 'an unpaid quote without an invoice',
  mint_out_of_reach:
    'this service does not send requests to such a mint URL (of a user, the rest is imported)',
  same_quote_twice: 'an earlier row has the same quote, and counts',
  settings_kept: 'the user already has other settings here, which stay',
  has_another_name: 'the user already has another name here, which stays',
  name_taken: 'the name belongs to another key here; the rest of the user is imported',
};

function summaryText(
  counts: NpubcashCounts,
  proofs: readonly NpubcashProofs[],
  isDry: boolean,
): string {
  const { users, names, blocks, payments, invoices, redated, watched } = counts;
  const skipped = Object.entries(counts.skipped) as [SkipReason, number][];
  return lines(
    isDry ? 'An import would add (nothing was changed):' : 'Imported:',
    `  Users     ${tallyText(users)}`,
    `  Names     ${tallyText(names)}`,
    `  Blocks    ${tallyText(blocks)}`,
    `  Payments  ${tallyText(payments)}`,
    `  Invoices  ${tallyText(invoices)} (not paid)`,
    `${count(redated, 'payment')} listed as paid now, because wallets would not see an earlier time.`,
    `${count(watched, 'quote')} watched from now on.`,
    `${count(payments.added + invoices.added, 'quote')} without a verification URL.`,
    skipped.length === 0 ? 'Nothing was skipped.' : 'Skipped:',
    ...skipped.map(
      ([reason, rows]) => `  ${number(rows).padStart(9)}  ${reason}: ${REASONS[reason]}`,
    ),
    'Not imported:',
    ...proofs.map(
      ({ state, rows, amountSat }) =>
        `  proofs: ${count(rows, 'row')}, ${number(amountSat)} sat, ${state ?? 'no state'}` +
        ' (your income; withdraw it with npubcash)',
    ),
    '  all other tables',
  );
}

function tallyText({ added, present }: Tally): string {
  return `${number(added)} new, ${number(present)} already here`;
}
