import type { CommandContext, CommandReport } from './command.ts';
import { parseLimit, parseMintOption, UsageError } from './command.ts';
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
    const users = rows.slice(0, limit);
    const nextPage = rows.length > limit ? users.at(-1)?.pubkey : undefined;
    const lines = users.map((user) => {
      const { paymentCount, uncollectedSat, lastPaidAtMs, mintUrl, blockedAtMs, ...rest } = user;
      const parts = [
        formatCount(paymentCount, 'payment'),
        ...(lastPaidAtMs === null ? [] : [`the last at ${formatTime(lastPaidAtMs)}`]),
        ...(uncollectedSat === 0 ? [] : [`${formatSat(uncollectedSat)} not collected`]),
        ...(mintUrl === '' ? [] : [mintUrl]),
        ...(blockedAtMs === null ? [] : ['blocked']),
        ...(rest.memberSinceMs === null ? [] : ['member']),
        ...(rest.memberNote === null ? [] : [rest.memberNote]),
      ];
      return `${pubkeyToText(user.pubkey, user.name)}  ${parts.join(', ')}`;
    });
    return {
      isSuccess: true,
      json: { nowMs: clock(), users, nextPage },
      lines: [
        ...(lines.length === 0 ? ['No users.'] : lines),
        ...(nextPage ? [`There are more: repeat the command with --page ${nextPage}`] : []),
      ],
    };
  };
}
