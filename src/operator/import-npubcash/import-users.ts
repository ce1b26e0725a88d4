import { notify, type Tx } from '../../database/transaction.ts';
import { parseUsername } from '../../recipients/lightning-address.ts';
import { ALL_RECIPIENTS, RECIPIENT_CHANGES_CHANNEL } from '../../recipients/recipient-directory.ts';
import {
  blockUser,
  findUserByPubkey,
  lockPaymentCounters,
  saveUserSettings,
} from '../../recipients/user-store.ts';
import { claimUsername, findUsername } from '../../usernames/username-store.ts';
import { formatCount } from '../format.ts';
import type { ImportRun } from './import-run.ts';
import type { NpubcashSource, NpubcashUser } from './npubcash-source.ts';
import {
  isMintUrlAllowed,
  parseNpubcashMintUrl,
  parseNpubcashPubkey,
} from './parse-npubcash-rows.ts';

/** Imports blocks, unless the operator has ever blocked the recipient here: a block may have been removed since. */
export async function importBlocks(run: ImportRun, source: NpubcashSource): Promise<void> {
  for await (const blocks of source.readBlocks()) {
    await run.transaction(async (tx) => {
      for (const { pubkey: sourcePubkey, reason, createdAtMs } of blocks) {
        const pubkey = parseNpubcashPubkey(sourcePubkey);
        if (pubkey === null) {
          run.skip(`recipient_blocks ${JSON.stringify(sourcePubkey)}`, 'bad_pubkey');
          continue;
        }
        const user = await findUserByPubkey(tx, pubkey);
        const isNew = !user?.block && !user?.formerBlock;
        if (isNew) {
          await blockUser(tx, pubkey, reason, createdAtMs ?? run.options.clock());
        }
        run.count('blocks', isNew);
      }
      await notify(tx, RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
  }
}

/** Imports the settings and the name of each user who has none here. */
export async function importUsers(run: ImportRun, source: NpubcashSource): Promise<void> {
  let readCount = 0;
  for await (const rows of source.readUsers()) {
    await run.transaction(async (tx) => {
      const users = rows.flatMap((row) => parseUser(run, row) ?? []);
      await lockPaymentCounters(
        tx,
        users.map(({ pubkey }) => pubkey),
      );
      for (const user of users) {
        await importUser(run, tx, user);
      }
      await notify(tx, RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
    readCount += rows.length;
    run.options.io.reportProgress(formatCount(readCount, 'user'));
  }
}

/** A row of `l_users`, in which settings that cannot be imported are null. */
type ParsedUser = NpubcashUser & { pubkey: string };

/** Returns null if the key is invalid. */
function parseUser(run: ImportRun, row: NpubcashUser): ParsedUser | null {
  const sourceRow = `l_users ${row.id}`;
  const pubkey = parseNpubcashPubkey(row.pubkey);
  if (pubkey === null) {
    run.skip(sourceRow, 'bad_pubkey');
    return null;
  }
  let mintUrl = parseNpubcashMintUrl(row.mintUrl);
  if (row.mintUrl !== null && mintUrl === null) {
    run.skip(sourceRow, 'bad_mint_url');
  } else if (mintUrl !== null && !isMintUrlAllowed(mintUrl, run.options.allowHttpMints)) {
    run.skip(sourceRow, 'mint_url_not_allowed');
    mintUrl = null;
  }
  const name = parseUsername(row.name ?? '');
  if (row.name !== null && name === null) {
    run.skip(sourceRow, 'bad_name');
  }
  return { ...row, pubkey, mintUrl, name };
}

async function importUser(run: ImportRun, tx: Tx, user: ParsedUser): Promise<void> {
  const { pubkey, name } = user;
  const sourceRow = `l_users ${user.id}`;
  const stored = await findUserByPubkey(tx, pubkey);
  const mintUrl = stored?.mintUrl ?? user.mintUrl;
  const lockQuotes = stored?.lockQuotes ?? user.lockQuotes;
  const isChanged = mintUrl !== (stored?.mintUrl ?? null) || lockQuotes !== stored?.lockQuotes;
  if (isChanged) {
    await saveUserSettings(tx, pubkey, { lockQuotes, ...(mintUrl !== null && { mintUrl }) });
  }
  run.count('users', isChanged);
  if (mintUrl !== (user.mintUrl ?? mintUrl) || lockQuotes !== user.lockQuotes) {
    run.skip(sourceRow, 'settings_kept');
  }
  if (name === null) {
    return;
  }
  const hasNoName = stored === null || stored.name === null;
  if (!hasNoName && stored.name !== name) {
    run.skip(sourceRow, 'has_another_name');
    return;
  }
  // The operator has released it, for example because it pretends to be somebody else.
  if (hasNoName && (await findUsername(tx, name))?.status === 'released') {
    run.skip(sourceRow, 'name_released');
    return;
  }
  // The grace period does not matter: the key has no other name that this would release.
  const claim = { pubkey, nowMs: run.options.clock(), graceMs: 0 };
  if (hasNoName && !(await claimUsername(tx, name, claim))) {
    run.skip(sourceRow, 'name_taken');
    return;
  }
  run.count('names', hasNoName);
}
