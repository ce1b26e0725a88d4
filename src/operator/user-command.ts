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
import type { StoredUsername } from '../usernames/username-availability.ts';
import { findUsername, listUsernamesOfKey } from '../usernames/username-store.ts';
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
import { MAX_COUNTED_OPEN_QUOTES, MAX_REASON_LENGTH } from './limits.ts';
import { countPayments, searchUnpaidQuotes } from './trace/trace-store.ts';

/** Includes line breaks. The output shows a reason in one line. */
const CONTROL_CHARACTER_PATTERN = /\p{Cc}/u;

const HEX_PUBKEY = /^[0-9a-f]{64}$/i;

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
    const reason = values.reason === undefined ? null : parseReason(values.reason);
    return async ({ db, clock }) => {
      const report = await runAction(db, action, identifier, reason, clock());
      return createReportResult(report, values.json);
    };
  },
};

type UserIdentifier = Extract<RecipientAddress, { kind: 'pubkey' | 'name' }>;

interface ResolvedUser {
  pubkey: string;
  user: StoredUser | null;
}

async function runAction(
  db: Db,
  action: 'show' | 'block' | 'unblock',
  identifier: UserIdentifier,
  reason: string | null,
  nowMs: number,
): Promise<CommandReport> {
  let resolved: ResolvedUser;
  if (identifier.kind === 'pubkey') {
    const { pubkey } = identifier;
    resolved = { pubkey, user: await findUserByPubkey(db, pubkey) };
  } else {
    const user = await findUserByName(db, identifier.name);
    if (user === null) {
      return reportUnusedName(db, identifier.name);
    }
    resolved = { pubkey: user.pubkey, user };
  }
  return action === 'show'
    ? reportUser(db, resolved, nowMs)
    : changeBlock(db, resolved, action, reason, nowMs);
}

/** Parses a key in hex, or what people enter for a Lightning address. 64 hex characters are always a key. */
function parseUserIdentifier(operands: string[]): UserIdentifier {
  const { localPart } = parseAddressInput(
    requireSingleOperand(operands, 'Give one npub, key (hex) or name.'),
  );
  const address = HEX_PUBKEY.test(localPart)
    ? nip19.npubEncode(localPart.toLowerCase())
    : localPart;
  const identifier = parseRecipientAddress(address);
  switch (identifier.kind) {
    case 'invalid_npub':
      throw new UsageError('This is not a valid npub: it may be cut off or mistyped.');
    case 'unknown':
      throw new UsageError('This is not a valid npub, key (hex) or name.');
    case 'pubkey':
    case 'name':
      return identifier;
  }
}

function parseReason(text: string): string {
  const reason = text.trim();
  if (
    reason === '' ||
    reason.length > MAX_REASON_LENGTH ||
    CONTROL_CHARACTER_PATTERN.test(reason)
  ) {
    throw new UsageError(`Give a reason in one line of at most ${MAX_REASON_LENGTH} characters.`);
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

/**
 * Blocks or unblocks a key, even a key without stored data. The service creates no new invoices for a blocked key.
 * Earlier invoices can still be paid and collected.
 *
 * @param reason shown only to the operator; null keeps the reason of an earlier block
 */
async function changeBlock(
  db: Db,
  { pubkey, user }: ResolvedUser,
  action: 'block' | 'unblock',
  reason: string | null,
  nowMs: number,
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

/** Reports the stored data of a user. Sends no request to a mint. */
async function reportUser(
  db: Db,
  { pubkey, user }: ResolvedUser,
  nowMs: number,
): Promise<CommandReport> {
  const usernames = await listUsernamesOfKey(db, pubkey);
  const { paymentCount, lastPaidAtMs } = await countPayments(db, pubkey);
  const unpaid = await searchUnpaidQuotes(db, pubkey, null, MAX_COUNTED_OPEN_QUOTES + 1);
  const openQuotes = unpaid.filter(({ watchUntilMs }) => watchUntilMs !== null);
  const purchases = await countPurchasesByState(db, pubkey);
  const { open, completed, failed } = purchases;
  if (user === null && usernames.length + openQuotes.length + open + completed + failed === 0) {
    const npub = nip19.npubEncode(pubkey);
    return {
      isSuccess: false,
      json: { outcome: 'not_found', pubkey },
      lines: [`The database has no data of ${npub}. The key can be paid anyway.`],
    };
  }
  const { name = null, mintUrl = null, lockQuotes = null, block = null } = user ?? {};
  const formerBlock = user?.formerBlock ?? null;
  const openQuoteCount = Math.min(openQuotes.length, MAX_COUNTED_OPEN_QUOTES);
  const hasMoreOpenQuotes = openQuotes.length > MAX_COUNTED_OPEN_QUOTES;
  const lastPaid =
    lastPaidAtMs === null ? '' : `, the last at ${formatTimeWithDistance(lastPaidAtMs, nowMs)}`;
  return {
    isSuccess: true,
    json: {
      outcome: 'found',
      nowMs,
      pubkey,
      ...user,
      usernames,
      paymentCount,
      lastPaidAtMs,
      openQuoteCount,
      hasMoreOpenQuotes,
      purchases,
    },
    lines: [
      pubkeyToText(pubkey, name),
      ...formatFields(
        ['Key', pubkey],
        ...usernames.map((username) => toUsernameField(username, nowMs)),
        ['Mint', mintUrl ?? SERVICE_DEFAULT_TEXT],
        ['Locking', lockQuotesToText(lockQuotes)],
        ['Payments', `${formatNumber(paymentCount)}${lastPaid}`],
        [
          'Open quotes',
          `${hasMoreOpenQuotes ? 'more than ' : ''}${formatNumber(openQuoteCount)} (not paid yet)`,
        ],
        [
          'Purchases',
          formatNumber(completed) +
            (open === 0 ? '' : `, ${formatNumber(open)} in progress`) +
            (failed === 0 ? '' : `, ${formatNumber(failed)} failed`),
        ],
        ['Blocked', block === null ? 'no' : `yes, ${blockToText(block)}`],
        [
          'Unblocked',
          formerBlock &&
            `${formatTimeWithDistance(formerBlock.untilMs, nowMs)}; it was blocked ${blockToText(formerBlock)}`,
        ],
      ),
    ],
  };
}

const SERVICE_DEFAULT_TEXT = '(the default of the service)';

function lockQuotesToText(lockQuotes: boolean | null): string {
  if (lockQuotes === null) {
    return SERVICE_DEFAULT_TEXT;
  }
  return lockQuotes ? 'on' : 'off';
}

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
