import type { Tx } from '../database/transaction.ts';
import { recordAuditEvent } from '../recipients/audit-store.ts';
import { notifyRecipientChange } from '../recipients/recipient-directory.ts';
import { findUserByPubkey } from '../recipients/user-store.ts';

/** Announces a change of a key's name to all processes, and adds it to the audit trail unless `change` returns false. */
export async function recordNameChange(
  tx: Tx,
  event: { pubkey: string; systemUser?: string; action: string; atMs: number },
  change: () => Promise<boolean>,
): Promise<boolean> {
  const { pubkey } = event;
  const readName = async () => (await findUserByPubkey(tx, pubkey))?.name ?? null;
  await notifyRecipientChange(tx, pubkey);
  const before = await readName();
  if (!(await change())) {
    return false;
  }
  const after = { name: await readName() };
  await recordAuditEvent(tx, { ...event, before: { name: before }, after });
  return true;
}
