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
  type SkipReason,
} from './parse-npubcash-rows.ts';

/** Imports blocks, except of recipients whom the operator has blocked here before, even if that block was removed. */
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
      // These are the rows of the users, so the lock also protects their settings and names.
      const pubkeys = rows.flatMap((row) => parseNpubcashPubkey(row.pubkey) ?? []);
      await lockPaymentCounters(tx, pubkeys);
      for (const row of rows) {
        await importUser(run, tx, row);
      }
      await notify(tx, RECIPIENT_CHANGES_CHANNEL, [ALL_RECIPIENTS]);
    });
    readCount += rows.length;
    run.options.io.reportProgress(formatCount(readCount, 'user'));
  }
}

async function importUser(run: ImportRun, tx: Tx, row: NpubcashUser): Promise<void> {
  const skip = (reason: SkipReason) => run.skip(`l_users ${row.id}`, reason);
  const pubkey = parseNpubcashPubkey(row.pubkey);
  if (pubkey === null) {
    skip('bad_pubkey');
    return;
  }
  let rowMintUrl = parseNpubcashMintUrl(row.mintUrl);
  if (row.mintUrl !== null && rowMintUrl === null) {
    skip('bad_mint_url');
  } else if (rowMintUrl !== null && !isMintUrlAllowed(rowMintUrl, run.options.allowHttpMints)) {
    skip('mint_url_not_allowed');
    rowMintUrl = null;
  }
  const stored = await findUserByPubkey(tx, pubkey);
  const mintUrl = stored?.mintUrl ?? rowMintUrl;
  const lockQuotes = stored?.lockQuotes ?? row.lockQuotes;
  const addsSettings = mintUrl !== (stored?.mintUrl ?? null) || lockQuotes !== stored?.lockQuotes;
  if (addsSettings) {
    await saveUserSettings(tx, pubkey, { lockQuotes, ...(mintUrl !== null && { mintUrl }) });
  }
  run.count('users', addsSettings);
  const keepsOtherMint = rowMintUrl !== null && mintUrl !== rowMintUrl;
  if (keepsOtherMint || lockQuotes !== row.lockQuotes) {
    skip('settings_kept');
  }
  if (row.name !== null) {
    const storedName = stored?.name ?? null;
    const skipReason = await importName(run, tx, { pubkey, storedName, sourceName: row.name });
    if (skipReason === null) {
      run.count('names', storedName === null);
    } else {
      skip(skipReason);
    }
  }
}

/** Gives the key its name. Returns null if the key has the name now, otherwise why not. */
async function importName(
  run: ImportRun,
  tx: Tx,
  names: { pubkey: string; storedName: string | null; sourceName: string },
): Promise<SkipReason | null> {
  const { pubkey, storedName, sourceName } = names;
  const name = parseUsername(sourceName);
  if (name === null) {
    return 'bad_name';
  }
  if (storedName !== null) {
    return storedName === name ? null : 'has_another_name';
  }
  // The operator may have released it because its owner pretended to be another person.
  if ((await findUsername(tx, name))?.status === 'released') {
    return 'name_released';
  }
  // The grace period does not matter: the key has no other name that this would release.
  const claim = { pubkey, nowMs: run.options.clock(), graceMs: 0 };
  return (await claimUsername(tx, name, claim)) ? null : 'name_taken';
}
