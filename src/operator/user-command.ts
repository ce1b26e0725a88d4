import { parseArgs } from 'node:util';
import * as nip19 from 'nostr-tools/nip19';
import { type Db, transaction } from '../database/transaction.ts';
import { parseAddressInput } from '../recipients/address-input.ts';
import { parseRecipientAddress, type RecipientAddress } from '../recipients/lightning-address.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import {
  blockUser,
  findUserByName,
  findUserByPubkey,
  type RecipientBlock,
  type StoredUser,
  unblockUser,
} from '../recipients/user-store.ts';
import { countPurchasesByState } from '../usernames/purchase-store.ts';
import {
  findUsername,
  listUsernamesOfKey,
  type StoredUsername,
} from '../usernames/username-store.ts';
import {
  type CommandReport,
  createReportResult,
  type OperatorCommand,
  requireSingleOperand,
  UsageError,
} from './command.ts';
import {
  formatFields,
  formatNumber,
  formatTime,
  formatTimeWithDistance,
  pubkeyToText,
} from './format.ts';
import { countPayments, searchQuotes } from './trace/trace-store.ts';

export const userCommand: OperatorCommand = {
  name: 'user',
  usage: `  user show <npub | key | name>
           shows the stored data of a user
  user block <npub | key | name> [--reason <text>]
           stops new invoices for a user; earlier invoices can still be paid
  user unblock <npub | key | name>
           removes the block. All three accept --json, for scripts
`,
  parse: (args) => {
    const { values, positionals } = parseArgs({
      args,
      options: { json: { type: 'boolean', default: false }, reason: { type: 'string' } },
      allowPositionals: true,
    });
    const [action, ...operands] = positionals;
    if (action !== 'show' && action !== 'block' && action !== 'unblock') {
      throw new UsageError('Give show, block or unblock, and one npub, key or name.');
    }
    if (action !== 'block' && values.reason !== undefined) {
      throw new UsageError('--reason is only for `user block`.');
    }
    const identifier = parseUserIdentifier(operands);
    const reason = parseReason(values.reason);
    return async ({ db, clock }) => {
      const nowMs = clock();
      const run = async (pubkey: string, user: StoredUser | null) =>
        action === 'show'
          ? reportUser(db, pubkey, user, nowMs)
          : changeBlock(db, pubkey, user, { action, reason, nowMs });
      let report: CommandReport;
      if (identifier.kind === 'pubkey') {
        report = await run(identifier.pubkey, await findUserByPubkey(db, identifier.pubkey));
      } else {
        const user = await findUserByName(db, identifier.name);
        report = await (user ? run(user.pubkey, user) : reportUnusedName(db, identifier.name));
      }
      return createReportResult(report, values.json);
    };
  },
};

type UserIdentifier = Extract<RecipientAddress, { kind: 'pubkey' | 'name' }>;

/** Parses a key in hex, or what people enter for a Lightning address. 64 hex characters are always a key. */
function parseUserIdentifier(operands: string[]): UserIdentifier {
  const { localPart } = parseAddressInput(
    requireSingleOperand(operands, 'Give one npub, key (hex) or name.'),
  );
  const isHexKey = /^[0-9a-f]{64}$/i.test(localPart);
  const identifier = parseRecipientAddress(
    isHexKey ? nip19.npubEncode(localPart.toLowerCase()) : localPart,
  );
  if (identifier.kind === 'pubkey' || identifier.kind === 'name') {
    return identifier;
  }
  throw new UsageError(
    'This is not a valid npub, key (hex) or name: it may be cut off or mistyped.',
  );
}

function parseReason(text: string | undefined): string | null {
  const reason = text?.trim() ?? null;
  if (reason === null) {
    return null;
  }
  if (!/^\P{Cc}{1,500}$/u.test(reason)) {
    throw new UsageError('Give a reason in one line of at most 500 characters.');
  }
  return reason;
}

/** Suggests the key that is buying the name or had it before. The operator must repeat the command with that key. */
async function reportUnusedName(db: Db, name: string): Promise<CommandReport> {
  const stored = await findUsername(db, name);
  let text = `No user has the name ${name}.`;
  if (stored?.pubkey) {
    const relation = stored.status === 'pending' ? 'is buying it' : 'had it before';
    text += ` ${nip19.npubEncode(stored.pubkey)} ${relation}: use the npub if you mean that user.`;
  }
  return { isSuccess: false, json: { outcome: 'name_not_in_use', name, ...stored }, lines: [text] };
}

/** A block without a reason keeps the reason of an earlier block. */
async function changeBlock(
  db: Db,
  pubkey: string,
  user: StoredUser | null,
  { action, reason, nowMs }: { action: 'block' | 'unblock'; reason: string | null; nowMs: number },
): Promise<CommandReport> {
  const earlierBlock = user?.block ?? null;
  // The block that is now in force or was removed.
  const block = await transaction(db, async (tx) => {
    await notifyRecipientChange(tx, pubkey);
    if (action === 'block') {
      return blockUser(tx, pubkey, reason, nowMs);
    }
    await unblockUser(tx, pubkey, nowMs);
    return earlierBlock;
  });
  const name = user?.name ?? null;
  const report = (outcome: string, text: string): CommandReport => ({
    isSuccess: true,
    json: { outcome, nowMs, pubkey, name, block },
    lines: [`${pubkeyToText(pubkey, name)} ${text}`],
  });
  if (block === null) {
    return report('not_blocked', 'is not blocked.');
  }
  if (action === 'unblock') {
    return report('unblocked', `is unblocked; it was blocked ${blockToText(block)}.`);
  }
  return earlierBlock === null
    ? report('blocked', 'is blocked: payers get the error "Recipient unavailable."')
    : report('already_blocked', `is already blocked, ${blockToText(block)}.`);
}

function blockToText({ sinceMs, reason }: RecipientBlock): string {
  return `since ${formatTime(sinceMs)}${reason === null ? ', without a reason' : `: ${reason}`}`;
}

/** The output shows a larger number as "more than 1,000". */
const MAX_COUNTED_OPEN_QUOTES = 1_000;

async function reportUser(
  db: Db,
  pubkey: string,
  user: StoredUser | null,
  nowMs: number,
): Promise<CommandReport> {
  const usernames = await listUsernamesOfKey(db, pubkey);
  const payments = await countPayments(db, pubkey);
  const unpaid = await searchQuotes(db, pubkey, 'unpaid', null, MAX_COUNTED_OPEN_QUOTES + 1);
  const openQuotes = unpaid.filter(({ watchUntilMs }) => watchUntilMs !== null);
  const openQuoteCount = Math.min(openQuotes.length, MAX_COUNTED_OPEN_QUOTES);
  const hasMoreOpenQuotes = openQuotes.length > MAX_COUNTED_OPEN_QUOTES;
  const purchases = await countPurchasesByState(db, pubkey);
  const { open, completed, failed } = purchases;
  if (user === null && usernames.length + openQuoteCount + open + completed + failed === 0) {
    const text = `The database has no data of ${nip19.npubEncode(pubkey)}. The key can be paid anyway.`;
    return { isSuccess: false, json: { outcome: 'not_found', pubkey }, lines: [text] };
  }
  const formatAt = (ms: number) => formatTimeWithDistance(ms, nowMs);
  const { name = null, mintUrl, lockQuotes, block, formerBlock } = user ?? {};
  const locking = lockQuotes ? 'on' : 'off';
  const lastPaid = payments.lastPaidAtMs && `, the last at ${formatAt(payments.lastPaidAtMs)}`;
  const more = hasMoreOpenQuotes ? 'more than ' : '';
  const inProgress = open === 0 ? '' : `, ${formatNumber(open)} in progress`;
  const failures = failed === 0 ? '' : `, ${formatNumber(failed)} failed`;
  const unblocked = (former: NonNullable<StoredUser['formerBlock']>) =>
    `${formatAt(former.untilMs)}; it was blocked ${blockToText(former)}`;
  const counts = { ...payments, openQuoteCount, hasMoreOpenQuotes };
  return {
    isSuccess: true,
    json: { outcome: 'found', nowMs, pubkey, ...user, usernames, ...counts, purchases },
    lines: [
      pubkeyToText(pubkey, name),
      ...formatFields(
        ['Key', pubkey],
        ...usernames.map((username) => toUsernameField(username, nowMs)),
        ['Mint', mintUrl ?? SERVICE_DEFAULT_TEXT],
        ['Locking', lockQuotes == null ? SERVICE_DEFAULT_TEXT : locking],
        ['Payments', `${formatNumber(payments.paymentCount)}${lastPaid ?? ''}`],
        ['Open quotes', `${more}${formatNumber(openQuoteCount)} (not paid yet)`],
        ['Purchases', `${formatNumber(completed)}${inProgress}${failures}`],
        ['Blocked', block ? `yes, ${blockToText(block)}` : 'no'],
        ['Unblocked', formerBlock ? unblocked(formerBlock) : null],
      ),
    ],
  };
}

const SERVICE_DEFAULT_TEXT = '(the default of the service)';

function toUsernameField(
  { name, status, statusSinceMs, graceEndsAtMs, purchaseId }: StoredUsername,
  nowMs: number,
): [label: string, value: string] {
  const since = formatTimeWithDistance(statusSinceMs, nowMs);
  switch (status) {
    case 'in_use':
      return ['Name', `${name}, since ${since}`];
    case 'pending':
      return ['Buying', `${name}, since ${since}; purchase ${purchaseId}`];
    case 'released': {
      const untilMs = graceEndsAtMs ?? statusSinceMs;
      const availability = untilMs > nowMs ? 'reserved for this user until' : 'free since';
      return ['Old name', `${name}, ${availability} ${formatTimeWithDistance(untilMs, nowMs)}`];
    }
    case 'reserved':
      return ['Reserved', name];
  }
}
