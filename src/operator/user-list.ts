import type { CommandContext, CommandReport } from './command.ts';
import { parseLimit, parseMintOption, reportPage, UsageError } from './command.ts';
import { formatCount, formatSat, formatTime, pubkeyToText } from './format.ts';
import { listUsers } from './report-store.ts';

interface ListOptions {
  blocked?: boolean | undefined;
  member?: boolean | undefined;
  uncollected?: boolean | undefined;
  mint?: string | undefined;
  limit?: string | undefined;
  page?: string | undefined;
}

/** Parses the arguments of `user list`. Returns a function that reports a page of users. */
export function parseUserList(operands: readonly string[], options: ListOptions) {
  const { blocked = false, member = false, uncollected = false, page: afterPubkey = '' } = options;
  if (operands.length > 0 || !/^(?:[0-9a-f]{64})?$/.test(afterPubkey)) {
    throw new UsageError('Give no user, and for --page what the previous page printed.');
  }
  const limit = parseLimit(options.limit ?? '50');
  const filter = {
    isBlocked: blocked,
    isMember: member,
    isUncollected: uncollected,
    mintUrl: parseMintOption(options.mint),
  };
  return async ({ db, recipientDefaults, clock }: CommandContext): Promise<CommandReport> => {
    const defaultMintUrl = recipientDefaults.mintUrl;
    const rows = await listUsers(db, filter, { afterPubkey, limit: limit + 1, defaultMintUrl });
    const page = { name: 'users', limit, nowMs: clock() };
    return reportPage(rows, page, ({ pubkey }) => pubkey, userToLine);
  };
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
