import type { TableSize } from '../store/npubcash-source.ts';
import type { NpubcashImport, NpubcashRun } from '../usecases/import-npubcash.ts';
import type { LeftOut, LeftOutReason, Tally } from '../usecases/npubcash-report.ts';
import { count, lines } from './plain-text.ts';

/** Why rows are left out, for a person. */
const REASONS: Readonly<Record<LeftOutReason, string>> = {
  bad_pubkey: 'the pubkey is no Nostr key: nobody could ever sign for it',
  bad_mint_url: 'the mint url is no url of a mint; of a user, all but the mint was brought over',
  bad_quote_id: 'the quote id can be none of a mint',
  bad_amount: 'the amount is no number of sats',
  other_unit: 'the unit is not sat',
  unknown_state: 'the state is none that is known',
  no_invoice: 'there is no invoice, and no payment of one',
  mint_out_of_reach:
    'this service asks no mint with plain http or a port like this; of a user, all but the mint was brought over',
  same_quote_twice: 'another row has the same quote, and is further on or older',
  quote_of_another: 'the quote is another recipient’s as well, and counts as theirs',
  same_key_twice:
    'another row has the same pubkey, and is newer; its name counts where that one has none',
  changed_here: 'the user chose something else here since; that stays',
  bad_name: 'the name can be nobody’s; all but the name was brought over',
  has_another_name: 'the name of the key was changed or taken away here since; that stays so',
  name_taken: 'the name is somebody else’s here; all but the name was brought over',
  unblocked_there:
    'blocked there no more, and still blocked here: unblock whom you want to, --report names them',
};

/** Tables that are known and not brought over, and what to do about it; others are from version 1 or unknown. */
const TABLES: Readonly<Record<string, string>> = {
  mints: 'what mints said of themselves; this service asks them',
  pgmigrations: 'the bookkeeping of npubcash',
  proofs: 'your income; take it out with npubcash',
  l_alias_requests: 'of version 1',
  l_claims_3: 'of version 1',
  l_failed_payments: 'of version 1',
  l_inflight: 'of version 1',
  l_payments: 'of version 1',
  l_transactions: 'of version 1',
  l_withdrawals: 'of version 1',
};

const UNKNOWN_TABLE = 'not known to this service';

/** One line: how far an import is. */
export function npubcashProgressToText(
  kind: 'users' | 'quotes',
  done: number,
  total: number,
): string {
  return `${kind === 'users' ? 'Users' : 'Quotes'}: ${done.toLocaleString('en')} of ${total.toLocaleString('en')}`;
}

/** What came of an import, for a person: lines of text. */
export function npubcashImportToText(
  { survey, counts, uncounted }: NpubcashImport,
  { isEarly, isDry }: NpubcashRun,
): string {
  const { users, names, blocks, payments, invoices } = counts;
  const isNew = payments.added + invoices.added;
  const leftOut = entriesOf(counts.leftOut);
  return lines(
    isDry ? 'This would be brought over (nothing was changed):' : 'Brought over:',
    `  Users     ${tallyInWords(users)}`,
    `  Names     ${tallyInWords(names)}`,
    `  Blocks    ${tallyInWords(blocks)}`,
    `  Payments  ${tallyInWords(payments)}`,
    `  Invoices  ${tallyInWords(invoices)} (not paid)`,
    ...(counts.dated === 0
      ? []
      : [
          `${count(counts.dated, 'payment')} listed as paid now: of an earlier time, wallets would pass over them.`,
        ]),
    `Of ${count(counts.watched, 'quote')} the mints are asked from now on.`,
    ...(counts.later === 0
      ? []
      : [
          `${count(counts.later, 'quote')} left to the run after npubcash was stopped, without --while-running.`,
        ]),
    `${count(isNew, 'quote')} without a verification url: npubcash keeps those elsewhere.`,
    ...(leftOut.length === 0 ? ['Nothing was left out.'] : ['Left out:']),
    ...leftOut.map(
      ([reason, rows]) => `  ${rows.toLocaleString('en').padStart(9)}  ${REASONS[reason]}`,
    ),
    ...(uncounted === null
      ? []
      : [
          `The database did not count what came (${uncounted}): give it "analyze quotes, users", or it is slow until it does.`,
        ]),
    'Never brought over:',
    ...survey.proofs.map(
      ({ state, rows, amountSat }) =>
        `  proofs  ${count(rows, 'row')}, ${amountSat.toLocaleString('en')} sat, ${state ?? 'no state'}:` +
        ' your income; take it out with npubcash',
    ),
    ...survey.others.map(
      ({ table, rows }) =>
        `  ${table}  ${rows === null ? 'not readable' : count(rows, 'row')}: ${tableInWords(table)}`,
    ),
    ...(isEarly || survey.otherConnections === 0
      ? []
      : [
          `${count(survey.otherConnections, 'other connection')} to that database: if npubcash still runs, give --while-running.`,
        ]),
  );
}

/** A row that is left out, for a program. It names the row, and nothing of what is secret in it. */
export function leftOutToJson({ table, id, reason, instead, pubkey }: LeftOut): object {
  return {
    table,
    ...(id === null ? {} : { id }),
    reason,
    why: REASONS[reason],
    ...(instead === undefined ? {} : { instead }),
    ...(pubkey === undefined ? {} : { pubkey }),
  };
}

/** What came of an import, for a program: the last line of the report. */
export function npubcashImportToJson(
  { survey, counts, uncounted }: NpubcashImport,
  isDry: boolean,
): object {
  return {
    dryRun: isDry,
    counts,
    ...(uncounted === null ? {} : { uncounted }),
    withoutVerificationUrl: counts.payments.added + counts.invoices.added,
    neverBroughtOver: {
      proofs: survey.proofs,
      tables: survey.others.map(({ table, rows }: TableSize) => ({
        table,
        rows,
        why: tableInWords(table),
      })),
    },
  };
}

function tallyInWords({ added, changed, unchanged }: Tally): string {
  return [
    `${added.toLocaleString('en')} new`,
    `${changed.toLocaleString('en')} changed`,
    `${unchanged.toLocaleString('en')} here already`,
  ].join(', ');
}

function tableInWords(table: string): string {
  return TABLES[table] ?? UNKNOWN_TABLE;
}

function entriesOf(leftOut: Partial<Record<LeftOutReason, number>>): [LeftOutReason, number][] {
  return Object.entries(leftOut) as [LeftOutReason, number][];
}
