import * as nip19 from 'nostr-tools/nip19';
import { type Db, transaction } from '../database/transaction.ts';
import { parseAddressInput } from '../recipients/address-input.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import { parseRecipientAddress } from '../recipients/lightning-address.ts';
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
  type CommandContext,
  type CommandReport,
  defineCommand,
  encodeHexKey,
  reportPage,
  UsageError,
} from './command.ts';
import {
  formatCount,
  formatFields,
  formatNumber,
  formatSat,
  formatTime,
  formatTimeWithDistance,
  pubkeyToText,
} from './format.ts';
import { parseLimit, parseMintUrl, parseNote } from './options.ts';
import type { CommandIo } from './process-io.ts';
import { listUsers, type UserFilter } from './report-store.ts';
import { searchQuotes } from './trace/trace-store.ts';
import { deleteUser, exportUser } from './user-data.ts';
import { setUserMint } from './user-mint.ts';

/** The options of commands that list users. */
export const USER_PAGE_OPTIONS = { limit: parseLimit, page: parsePageKey };

function parsePageKey(text: string, option: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw new UsageError(`${option} must be what the previous page printed (got '${text}').`);
  }
  return text;
}

const USER = ['<npub | key | name>', parseUserIdentifier] as const;

export const userCommands = [
  defineCommand({
    name: 'user list',
    synopsis: '[--blocked] [--member] [--uncollected] [--mint <URL>]',
    description:
      'lists the users, or those that are blocked, are members, have payments that are not collected, or receive at a mint; --limit <number> lists more than 50, --page continues a list',
    options: {
      ...USER_PAGE_OPTIONS,
      blocked: 'flag',
      member: 'flag',
      uncollected: 'flag',
      mint: parseMintUrl,
    },
    run: (context, { blocked, member, uncollected, mint, ...page }) => {
      const filter = {
        ...{ isBlocked: blocked, isMember: member },
        ...{ isUncollected: uncollected, mintUrl: mint },
      };
      return reportUsers(context, filter, page);
    },
  }),
  defineCommand({
    name: 'user show',
    description: 'shows the stored data of a user',
    operands: [USER],
    run: withUser(showUser),
  }),
  defineCommand({
    name: 'user export',
    description:
      'prints all stored data of a user as JSON. Keep it secret: anyone who has it can take payments that were not collected yet',
    operands: [USER],
    run: withUser(exportUser),
  }),
  defineCommand({
    name: 'user delete',
    synopsis: '<npub | key | name> [--apply]',
    description:
      'shows which data of a user would be deleted, and what is kept for open payments; --apply deletes it',
    options: { apply: 'flag' },
    operands: [USER],
    run: withUser((context, target, { apply }) => deleteUser(context, target, apply)),
  }),
  defineCommand({
    name: 'user set-mint',
    description:
      "sets the mint of a user's future payments, after the checks that users' changes pass",
    operands: [USER, ['<URL>', String]],
    run: (context, options, [user, mintUrl], io) => {
      const change = withUser((_, { pubkey }) => setUserMint(context, pubkey, mintUrl));
      return change(context, options, [user], io);
    },
  }),
  defineCommand({
    name: 'user block',
    synopsis: '<npub | key | name> [--reason <text>]',
    description: 'stops new invoices for a user; earlier invoices can still be paid',
    options: { reason: parseNote },
    operands: [USER],
    run: withUser((context, target, { reason }) => changeBlock(context, target, 'block', reason)),
  }),
  defineCommand({
    name: 'user unblock',
    description: 'removes the block',
    operands: [USER],
    run: withUser((context, target) => changeBlock(context, target, 'unblock', null)),
  }),
];

/** The user whom a command is about; `user` is null if nothing was ever stored for the key. */
export interface TargetUser {
  pubkey: string;
  user: StoredUser | null;
}

/** Creates a command about the user whom its operand identifies. */
function withUser<Options>(
  run: (
    context: CommandContext,
    target: TargetUser,
    options: Options,
    io: CommandIo,
  ) => Promise<CommandReport>,
) {
  return async (
    context: CommandContext,
    options: Options,
    [identifier]: readonly [ReturnType<typeof parseUserIdentifier>],
    io: CommandIo,
  ) => {
    const { db } = context;
    if (identifier.kind === 'pubkey') {
      const { pubkey } = identifier;
      return run(context, { pubkey, user: await findUserByPubkey(db, pubkey) }, options, io);
    }
    const user = await findUserByName(db, identifier.name);
    return user === null
      ? reportUnusedName(db, identifier.name)
      : run(context, { pubkey: user.pubkey, user }, options, io);
  };
}

/** Parses a key in hex, or what people enter for a Lightning address. */
export function parseUserIdentifier(text: string) {
  const { localPart } = parseAddressInput(text);
  const identifier = parseRecipientAddress(encodeHexKey(localPart));
  if (identifier.kind === 'pubkey' || identifier.kind === 'name') {
    return identifier;
  }
  throw new UsageError(
    'This is not a valid npub, key (hex) or name: it may be cut off or mistyped.',
  );
}

/** The report contains the npub of who is buying the name or had it before, for the operator's next command. */
async function reportUnusedName(db: Db, name: string): Promise<CommandReport> {
  const stored = await findUsername(db, name);
  let text = `No user has the name ${name}.`;
  if (stored?.pubkey) {
    const relation = stored.status === 'pending' ? 'is buying it' : 'had it before';
    text += ` ${nip19.npubEncode(stored.pubkey)} ${relation}: use the npub if you mean that user.`;
  }
  return { isSuccess: false, json: { outcome: 'name_not_in_use', name, ...stored }, lines: [text] };
}

async function changeBlock(
  { db, systemUser, clock }: CommandContext,
  { pubkey, user }: TargetUser,
  action: 'block' | 'unblock',
  reason: string | null,
): Promise<CommandReport> {
  const nowMs = clock();
  const name = user?.name ?? null;
  const { earlierBlock, currentBlock } = await transaction(db, async (tx) => {
    await notifyRecipientChange(tx, pubkey);
    const before = (await findUserByPubkey(tx, pubkey))?.block ?? null;
    const after = action === 'block' ? await blockUser(tx, pubkey, reason, nowMs) : null;
    if (action === 'unblock') {
      await unblockUser(tx, pubkey, nowMs);
    }
    const event = { atMs: nowMs, systemUser, action: `user ${action}`, pubkey };
    await recordAuditEvent(tx, { ...event, before, after });
    return { earlierBlock: before, currentBlock: after };
  });
  const [outcome, text] = describeBlockChange(earlierBlock, currentBlock);
  return {
    isSuccess: true,
    json: { outcome, nowMs, pubkey, name, block: currentBlock ?? earlierBlock },
    lines: [`${pubkeyToText(pubkey, name)} ${text}`],
  };
}

function describeBlockChange(
  earlier: RecipientBlock | null,
  current: RecipientBlock | null,
): [outcome: string, text: string] {
  if (current !== null) {
    return earlier === null
      ? ['blocked', 'is blocked: payers get the error "Recipient unavailable."']
      : ['already_blocked', `is already blocked, ${blockToText(current)}.`];
  }
  return earlier === null
    ? ['not_blocked', 'is not blocked.']
    : ['unblocked', `is unblocked; it was blocked ${blockToText(earlier)}.`];
}

function blockToText({ sinceMs, reason }: RecipientBlock): string {
  return `since ${formatTime(sinceMs)}${reason === null ? ', without a reason' : `: ${reason}`}`;
}

/** The output shows a larger number as "more than 1,000". */
const MAX_COUNTED_OPEN_QUOTES = 1_000;

async function showUser(
  { db, clock }: CommandContext,
  { pubkey, user }: TargetUser,
): Promise<CommandReport> {
  const nowMs = clock();
  const usernames = await listUsernamesOfKey(db, pubkey);
  // All quotes are open for about as long, so the newest ones contain those that are open.
  const unpaid = await searchQuotes(db, pubkey, 'unpaid', null, MAX_COUNTED_OPEN_QUOTES + 1);
  const openQuotes = unpaid.filter(({ watchUntilMs }) => watchUntilMs !== null);
  const openQuoteCount = Math.min(openQuotes.length, MAX_COUNTED_OPEN_QUOTES);
  const hasMoreOpenQuotes = openQuotes.length > MAX_COUNTED_OPEN_QUOTES;
  const purchases = await countPurchasesByState(db, pubkey);
  const { open, completed, failed } = purchases;
  const hasPurchases = open + completed + failed > 0;
  if (user === null && usernames.length === 0 && openQuoteCount === 0 && !hasPurchases) {
    const text = `The database has no data of ${nip19.npubEncode(pubkey)}. The key can be paid anyway.`;
    return { isSuccess: false, json: { outcome: 'not_found', pubkey }, lines: [text] };
  }
  const { name = null, mintUrl, lockQuotes = null, block, formerBlock, member } = user ?? {};
  const { paymentCount = 0, lastPaidAtMs = null } = user ?? {};
  const formatAt = (atMs: number) => formatTimeWithDistance(atMs, nowMs);
  const lastPaid = lastPaidAtMs && `, the last at ${formatAt(lastPaidAtMs)}`;
  const locking = lockQuotes ? 'on' : 'off';
  const moreThan = hasMoreOpenQuotes ? 'more than ' : '';
  const inProgress = open === 0 ? '' : `, ${formatNumber(open)} in progress`;
  const failures = failed === 0 ? '' : `, ${formatNumber(failed)} failed`;
  const unblocked =
    formerBlock && `${formatAt(formerBlock.untilMs)}; it was blocked ${blockToText(formerBlock)}`;
  const counts = { paymentCount, lastPaidAtMs, openQuoteCount, hasMoreOpenQuotes };
  return {
    isSuccess: true,
    json: { outcome: 'found', nowMs, pubkey, ...user, usernames, ...counts, purchases },
    lines: [
      pubkeyToText(pubkey, name),
      ...formatFields(
        ['Key', pubkey],
        ...usernames.map((username) => usernameToField(username, nowMs)),
        ['Mint', mintUrl ?? SERVICE_DEFAULT_TEXT],
        ['Locking', lockQuotes === null ? SERVICE_DEFAULT_TEXT : locking],
        ['Payments', `${formatNumber(paymentCount)}${lastPaid ?? ''}`],
        ['Open quotes', `${moreThan}${formatNumber(openQuoteCount)} (not paid yet)`],
        ['Purchases', `${formatNumber(completed)}${inProgress}${failures}`],
        [
          'Member',
          member
            ? `since ${formatAt(member.sinceMs)}${member.note ? `: ${member.note}` : ''}`
            : null,
        ],
        ['Blocked', block ? `yes, ${blockToText(block)}` : 'no'],
        ['Unblocked', unblocked],
      ),
    ],
  };
}

const SERVICE_DEFAULT_TEXT = '(the default of the service)';

function usernameToField(username: StoredUsername, nowMs: number): [label: string, value: string] {
  const { name, status, statusSinceMs, graceEndsAtMs, purchaseId } = username;
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

/** Reports a page of users. */
export async function reportUsers(
  { config, db, clock }: CommandContext,
  filter: UserFilter,
  options: { limit: number | null; page: string | null },
): Promise<CommandReport> {
  const limit = options.limit ?? 50;
  const afterPubkey = options.page ?? '';
  const { defaultMintUrl } = config;
  const rows = await listUsers(db, filter, { afterPubkey, limit: limit + 1, defaultMintUrl });
  const page = { name: 'users', limit, nowMs: clock() };
  return reportPage(rows, page, ({ pubkey }) => pubkey, userToLine);
}

function userToLine(user: Awaited<ReturnType<typeof listUsers>>[number]): string {
  const { paymentCount, uncollectedSat, lastPaidAtMs, blockedAtMs, memberSinceMs } = user;
  const parts = [
    formatCount(paymentCount, 'payment'),
    lastPaidAtMs && `the last at ${formatTime(lastPaidAtMs)}`,
    uncollectedSat && `${formatSat(uncollectedSat)} not collected`,
    user.mintUrl,
    blockedAtMs && 'blocked',
    memberSinceMs && 'member',
    user.memberNote,
  ];
  return `${pubkeyToText(user.pubkey, user.name)}  ${parts.filter(Boolean).join(', ')}`;
}
