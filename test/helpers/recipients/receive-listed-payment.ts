import type { TestMint } from '../../../demo/test-mint.ts';
import { eventually } from '../eventually.ts';
import type { TestEnvironment } from '../service/test-environment.ts';
import type { TestClock } from '../test-clock.ts';
import { type RecipientClient, requestJson } from './recipient-client.ts';

/** Pays an invoice of a service with a test clock, and waits until it is listed. */
export async function receiveListedPayment(
  environment: TestEnvironment,
  clock: TestClock,
  wallet: RecipientClient,
  { query, mint = environment.mint }: { query: string; mint?: TestMint },
) {
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const { body } = await requestJson(environment.origin, path);
  const quote = mint.pay(body.pr);
  const { paidAtMs } = await eventually(() =>
    environment.database.db
      .selectFrom('quotes')
      .select((eb) => eb.ref('paid_at').$notNull().as('paidAtMs'))
      .where('quote_id', '=', quote.id)
      .where('paid_at', 'is not', null)
      .executeTakeFirstOrThrow(),
  );
  // If the list was read in this second, the payment appears in the next one.
  clock.nowMs = Math.max(clock.nowMs, paidAtMs);
  return quote;
}
