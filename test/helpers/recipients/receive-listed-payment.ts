import type { TestMint } from '../../../demo/test-mint.ts';
import { eventually } from '../eventually.ts';
import type { TestEnvironment } from '../service/test-environment.ts';
import type { TestClock } from '../test-clock.ts';
import { type RecipientClient, requestJson } from './recipient-client.ts';

/** Requests an invoice from a service with a test clock, pays it, and waits until it is listed. */
export async function receiveListedPayment(
  environment: TestEnvironment,
  clock: TestClock,
  wallet: RecipientClient,
  { query, mint = environment.mint }: { query: string; mint?: TestMint },
) {
  const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
  const { body } = await requestJson(environment.origin, path);
  return await payUntilListed(environment, clock, body.pr, mint);
}

/** Pays an invoice, and waits until it is listed. */
export async function payUntilListed(
  environment: TestEnvironment,
  clock: TestClock,
  request: string,
  mint = environment.mint,
) {
  const quote = mint.pay(request);
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
