import { json } from 'node:stream/consumers';
import { timeRecording } from '../harness/time-recording.ts';
import { openFloorDatabase } from './floor-database.ts';
import type { ObservationPlan } from './observations.ts';

/** The floor of observations: one update for each batch, of the columns that a payment changes. */

const UPDATE = `
  update quotes set state = 'PAID', paid_at = $3, paid_seq = 1,
                    watch_until = $3::timestamptz + interval '7 days'
  from json_to_recordset($1) as paid (quote_id text)
  where quotes.mint_url = $2 and quotes.quote_id = paid.quote_id`;

const plan = (await json(process.stdin)) as ObservationPlan;
const database = await openFloorDatabase();

await timeRecording(plan, async (batch) => {
  const rows = batch.map((quoteId) => ({ quote_id: quoteId }));
  await database.query(UPDATE, [JSON.stringify(rows), plan.mintUrl, new Date()]);
});
process.disconnect?.();
