import * as nip19 from 'nostr-tools/nip19';
import type { Tx } from '../database/transaction.ts';
import { looksLikeKey, parseUsername } from '../recipients/lightning-address.ts';
import { recordNameChange } from '../usernames/record-name-change.ts';
import {
  claimUsername,
  decideClaim,
  findUsername,
  freeUsername,
} from '../usernames/username-store.ts';
import type { RowResult } from './apply-rows.ts';
import type { CommandContext } from './command.ts';
import { pubkeyToText } from './format.ts';

/** Gives a key a name that is free, reserved, or the key's own former one. Costs nothing. */
export async function assignUsername(
  tx: Tx,
  { config, actor, clock }: CommandContext,
  pubkey: string,
  nameText: string,
): Promise<RowResult> {
  const nowMs = clock();
  const name = parseUsername(nameText);
  const fail = (text: string) => ({ isDone: false, text });
  if (name === null || looksLikeKey(name)) {
    return fail(`${nameText} is not a valid name, or looks like a key.`);
  }
  const stored = await findUsername(tx, name);
  const claim = decideClaim(stored, pubkey, nowMs);
  if (claim === 'taken' || claim === 'buying') {
    const owner = nip19.npubEncode(stored?.pubkey ?? '');
    return fail(`${name} belongs to ${owner}: see \`nutpost name show ${name}\`.`);
  }
  if (claim !== 'owned') {
    const event = { atMs: nowMs, actor, action: 'name assign', pubkey };
    const isAssigned = await recordNameChange(tx, event, async () => {
      const isFree = claim !== 'reserved' || (await freeUsername(tx, name));
      return (
        isFree && claimUsername(tx, name, { pubkey, nowMs, graceMs: config.usernames.graceMs })
      );
    });
    if (!isAssigned) {
      return fail(`${name} changed at the same time: try again.`);
    }
  }
  return { isDone: true, text: `${pubkeyToText(pubkey, name)} has the name.` };
}
