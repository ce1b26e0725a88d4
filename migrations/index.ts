import type { Migration } from 'kysely/migration';
import { up as usersQuotesMints } from './0001_users_quotes_mints.ts';
import { up as watcher } from './0002_watcher.ts';
import { up as usernames } from './0003_usernames.ts';
import { up as openToTheWorld } from './0004_open_to_the_world.ts';
import { up as zaps } from './0005_zaps.ts';
import { up as npubcash } from './0006_npubcash.ts';
import { up as recipientChanges } from './0007_recipient_changes.ts';
import { up as roomForCounters } from './0008_room_for_counters.ts';
import { up as watchUntil } from './0009_watch_until.ts';

/** Every migration by name, applied in this order; a name that was released never changes. */
export const migrations: Record<string, Migration> = {
  '0001_users_quotes_mints': { up: usersQuotesMints },
  '0002_watcher': { up: watcher },
  '0003_usernames': { up: usernames },
  '0004_open_to_the_world': { up: openToTheWorld },
  '0005_zaps': { up: zaps },
  '0006_npubcash': { up: npubcash },
  '0007_recipient_changes': { up: recipientChanges },
  '0008_room_for_counters': { up: roomForCounters },
  '0009_watch_until': { up: watchUntil },
};
