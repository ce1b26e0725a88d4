import { hash } from 'node:crypto';
import type { Db, Tx } from '../database/transaction.ts';
import { transaction } from '../database/transaction.ts';
import { RequestError } from '../errors.ts';
import { recordAuditEvent } from './audit-store.ts';
import { notifyRecipientChange } from './recipient-directory.ts';
import { findUserByPubkey, updateOrAddUser } from './user-store.ts';

interface MembershipChange {
  pubkey: string;
  isMember: boolean;
  /** Null keeps the note of a member. */
  note: string | null;
  /** Who has run a command. Undefined: the user. */
  systemUser?: string;
  action: 'member add' | 'member remove' | 'redeem invitation';
  nowMs: number;
}

/** Makes a key a member, or ends its membership, and records that in the audit trail. Changes nothing if it is so. */
export async function changeMembership(tx: Tx, change: MembershipChange): Promise<void> {
  const { pubkey, isMember, note, systemUser, action, nowMs } = change;
  await notifyRecipientChange(tx, pubkey);
  const { member = null } = (await findUserByPubkey(tx, pubkey)) ?? {};
  if (!isMember && member === null) {
    return;
  }
  const after = isMember
    ? { sinceMs: member?.sinceMs ?? nowMs, note: note ?? member?.note ?? null }
    : null;
  const columns = { member_since: after?.sinceMs ?? null, member_note: after?.note ?? null };
  await updateOrAddUser(tx, { pubkey, ...columns });
  await recordAuditEvent(tx, { atMs: nowMs, systemUser, action, pubkey, before: member, after });
}

/** Stores an invitation, by the hash of its code, and deletes those that have expired. */
export async function addInvitation(
  tx: Tx,
  code: string,
  { note, nowMs, expiresAtMs }: { note: string | null; nowMs: number; expiresAtMs: number },
): Promise<void> {
  await tx.deleteFrom('invitations').where('expires_at', '<=', nowMs).execute();
  const row = { code_hash: hash('sha256', code), note, expires_at: expiresAtMs };
  await tx.insertInto('invitations').values(row).execute();
}

/** Makes a user a member with the code of an invitation, which is used up, unless the user is a member already. */
export async function redeemInvitation(
  db: Db,
  pubkey: string,
  code: string,
  nowMs: number,
): Promise<void> {
  await transaction(db, async (tx) => {
    if ((await findUserByPubkey(tx, pubkey))?.member) {
      return;
    }
    const invitation = await tx
      .deleteFrom('invitations')
      .where('code_hash', '=', hash('sha256', code))
      .where('expires_at', '>', nowMs)
      .returning('note')
      .executeTakeFirst();
    if (invitation === undefined) {
      const message = 'This invitation is not valid: it was used, has expired, or is incomplete.';
      throw new RequestError('invitation_invalid', message);
    }
    const change = { pubkey, isMember: true, note: invitation.note, nowMs };
    await changeMembership(tx, { ...change, action: 'redeem invitation' });
  });
}
