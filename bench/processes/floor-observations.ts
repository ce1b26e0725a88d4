import { json } from 'node:stream/consumers';
import { timeRecording } from '../harness/time-recording.ts';
import { openFloorDatabase } from './floor-database.ts';
import type { ObservationPlan } from './observations.ts';

/**
 * The floor of observations: one update for each batch, of the columns that an observation changes. A server syncs it
 * where it syncs ours: what is no news, and no payment (ADR 31).
 */

const UPDATES = {
  PAID: `
    update quotes set state = 'PAID', paid_at = $3, paid_seq = 1,
                      next_check_at = $3::timestamptz + interval '1 min', checked_at = $3,
                      checks = checks + 1
    from json_to_recordset($1) as paid (quote_id text)
    where quotes.mint_url = $2 and quotes.quote_id = paid.quote_id`,
  UNPAID: `
    update quotes set next_check_at = $3::timestamptz + interval '1 min', checked_at = $3,
                      checks = checks + 1
    from json_to_recordset($1) as unpaid (quote_id text)
    where quotes.mint_url = $2 and quotes.quote_id = unpaid.quote_id`,
};

const plan = (await json(process.stdin)) as ObservationPlan;
const database = await openFloorDatabase({ waitsForSync: plan.says === 'UNPAID' });

await timeRecording(plan, async (batch) => {
  const rows = batch.map((quoteId) => ({ quote_id: quoteId }));
  await database.query(UPDATES[plan.says], [JSON.stringify(rows), plan.mintUrl, new Date()]);
});
process.disconnect?.();
