import { type CommandContext, type CommandReport, reportPage, UsageError } from './command.ts';
import { formatCount, formatSat, formatTime, pubkeyToText } from './format.ts';
import { parseLimit } from './options.ts';
import { listUsers, type UserFilter } from './report-store.ts';

/** The options of commands that list users. */
export const USER_PAGE_OPTIONS = { limit: parseLimit, page: parsePageKey };

function parsePageKey(text: string, option: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw new UsageError(`${option} must be what the previous page printed (got '${text}').`);
  }
  return text;
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
