import { listAuditEvents, type StoredAuditEvent } from '../recipients/audit-store.ts';
import { findUserByName } from '../recipients/user-store.ts';
import { defineCommand, reportPage } from './command.ts';
import { formatFields, formatJson, formatTime, pubkeyToText } from './format.ts';
import { parseLimit, parsePageId, parseTime } from './options.ts';
import { parseUserIdentifier } from './user-command.ts';

export const auditCommand = defineCommand({
  name: 'audit',
  synopsis: '[npub | key | name] [--since <time>]',
  description:
    'lists who changed what in the last year, the newest change first, of all users or of one user or name; --limit <number> lists more than 50, --page continues a list',
  options: { limit: parseLimit, page: parsePageId, since: parseTime },
  operands: [['[npub | key | name]', parseUserIdentifier]],
  run: async ({ db, clock }, options, [identifier]) => {
    const { limit, page: beforeId, since: sinceMs } = { ...options, limit: options.limit ?? 50 };
    const { pubkey, name } = { pubkey: null, name: null, ...identifier };
    // The key is null if no user has the name.
    const owner = name === null ? null : await findUserByName(db, name);
    const about = identifier && { pubkey: owner?.pubkey ?? pubkey, name };
    const rows = await listAuditEvents(db, { about, sinceMs, beforeId }, limit + 1);
    const page = { name: 'events', limit, nowMs: clock() };
    return reportPage(rows, page, ({ id }) => `${id}`, eventToLines);
  },
});

function eventToLines(event: StoredAuditEvent): string[] {
  const { atMs, actorKind, actor, action, pubkey, name, before, after } = event;
  const subject = pubkey === null ? name : pubkeyToText(pubkey, name);
  const by = actorKind === 'command' ? `${actor}, with a command` : 'the user';
  return [
    `${formatTime(atMs)}  ${action}${subject === null ? '' : `  ${subject}`}`,
    ...formatFields(
      ['By', by],
      ['Before', before && formatJson(before)],
      ['After', after && formatJson(after)],
    ),
  ];
}
