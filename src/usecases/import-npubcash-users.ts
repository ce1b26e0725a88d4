import { parseUsername } from '../domain/username.ts';
import { ADDRESS_CHANNEL, ALL_ADDRESSES } from '../notifications/address-channel.ts';
import type { NpubcashUser } from '../store/npubcash-source.ts';
import type { TransactionStore } from '../store/store.ts';
import type { NpubcashRun, SkippedRow, Tally } from './import-npubcash.ts';
import { isWithinReach, readMintUrl, type SkipReason } from './read-npubcash.ts';

/** An import gives names only to keys without one, so it never releases a name. */
const NO_GRACE_MS = 0;

/** A row of `l_users` without the parts that cannot be imported. */
interface OldUser extends Omit<NpubcashUser, 'id'> {
  /** As in {@link SkippedRow}. */
  row: string;
  /** Hex. */
  pubkey: string;
}

/**
 * Blocks the recipients that npubcash blocks. Each row is imported once, so that a recipient whom the
 * operator unblocks here is not blocked again.
 */
export async function importNpubcashBlocks(run: NpubcashRun): Promise<void> {
  for await (const blocks of run.source.blocks()) {
    await run.step(async (tx) => {
      const skipped: SkippedRow[] = [];
      for (const block of blocks) {
        const row = `recipient_blocks ${JSON.stringify(block.pubkey)}`;
        const pubkey = run.keys.read(block.pubkey);
        if (pubkey === null) {
          skipped.push({ row, reason: 'bad_pubkey' });
          continue;
        }
        const imported = await tx.npubcash.findImported([row]);
        const isNew = !imported.has(row) && (await tx.blocks.find(pubkey)) === null;
        count(run.counts.blocks, isNew);
        if (isNew) {
          await tx.blocks.add(pubkey, block.reason, block.createdAtMs ?? run.clock());
        }
        await tx.npubcash.markImported(row);
      }
      await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
      return skipped;
    });
  }
}

/**
 * Imports settings and names. Each row is imported once, so that what the user or the operator changes here
 * stays. A row that conflicts with what is here is tried again by the next import.
 */
export async function importNpubcashUsers(run: NpubcashRun): Promise<void> {
  for await (const rows of run.source.users()) {
    await run.step(async (tx) => {
      const skipped: SkippedRow[] = [];
      const users = rows.flatMap((row) => readUser(row, run, skipped));
      await tx.users.lockPaymentCounters(users.map(({ pubkey }) => pubkey));
      const imported = await tx.npubcash.findImported(users.map(({ row }) => row));
      for (const user of users) {
        if (imported.has(user.row)) {
          run.counts.users.present += 1;
          run.counts.names.present += user.name === null ? 0 : 1;
          continue;
        }
        const conflicts = await importUser(tx, user, run);
        skipped.push(...conflicts.map((reason) => ({ row: user.row, reason })));
        if (conflicts.length === 0) {
          await tx.npubcash.markImported(user.row);
        }
      }
      await tx.notify(ADDRESS_CHANNEL, [ALL_ADDRESSES]);
      return skipped;
    });
    run.progress('users', rows.length);
  }
}

/** @param skipped gets an entry for each part of the row that cannot be imported */
function readUser(user: NpubcashUser, run: NpubcashRun, skipped: SkippedRow[]): OldUser[] {
  const row = `l_users ${user.id}`;
  const skip = (reason: SkipReason) => {
    skipped.push({ row, reason });
    return null;
  };
  const pubkey = run.keys.read(user.pubkey) ?? skip('bad_pubkey');
  if (pubkey === null) {
    return [];
  }
  let mintUrl = readMintUrl(user.mintUrl);
  if (user.mintUrl !== null && mintUrl === null) {
    skip('bad_mint_url');
  } else if (mintUrl !== null && !isWithinReach(mintUrl, run.allowHttp)) {
    mintUrl = skip('mint_out_of_reach');
  }
  const name = user.name === null ? null : (parseUsername(user.name) ?? skip('bad_name'));
  return [{ row, pubkey, name, mintUrl, lockQuotes: user.lockQuotes }];
}

/**
 * Fills in what is not set here.
 *
 * @returns why the rest of the row is not imported
 */
async function importUser(
  tx: TransactionStore,
  { pubkey, mintUrl, lockQuotes, name }: OldUser,
  { counts, clock }: NpubcashRun,
): Promise<SkipReason[]> {
  const here = await tx.users.find(pubkey);
  const mintHere = here?.mintUrl ?? null;
  const lockHere = here?.lockQuotes ?? null;
  const nameHere = here?.name ?? null;
  const conflicts: SkipReason[] = [];

  const missing = {
    ...(mintHere === null && mintUrl !== null ? { mintUrl } : {}),
    ...(lockHere === null ? { lockQuotes } : {}),
  };
  const isNew = Object.keys(missing).length > 0;
  if (isNew) {
    await tx.users.save(pubkey, missing);
  }
  count(counts.users, isNew);
  const hasOtherMint = mintHere !== null && mintUrl !== null && mintHere !== mintUrl;
  if (hasOtherMint || (lockHere !== null && lockHere !== lockQuotes)) {
    conflicts.push('settings_kept');
  }

  const claim = { pubkey, nowMs: clock(), graceMs: NO_GRACE_MS };
  if (name === null) {
    return conflicts;
  }
  if (nameHere !== null && nameHere !== name) {
    conflicts.push('has_another_name');
  } else if (nameHere === null && !(await tx.usernames.take(name, claim))) {
    conflicts.push('name_taken');
  } else {
    count(counts.names, nameHere === null);
  }
  return conflicts;
}

function count(tally: Tally, isNew: boolean): void {
  tally[isNew ? 'added' : 'present'] += 1;
}
