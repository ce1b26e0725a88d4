import { beforeAll, expect, it } from 'vitest';
import { decodeInvoice } from '../../src/quotes/bolt11.ts';
import { eventually } from '../helpers/eventually.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { DEFAULT_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

/**
 * A shop that uses an address as its Lightning node, as BTCPay Server does with the connection types `lnurl` and
 * `lnurlverify`: all requests come from the shop's server (LUD-06, LUD-12, LUD-21).
 */

const SECOND_MS = 1_000;
/** Longer than the minute of a rate limit. */
const ORDER_COUNT = 80;
const VERIFY_INTERVAL_SECONDS = 3;

const ABANDONED_ORDERS = 10;

/** The last order is paid then, and the shop has noticed the payment. */
const LAST_SECOND = ORDER_COUNT + 45;

const clock = new TestClock();
const environment = useTestEnvironment({
  mint: { now: clock.now },
  overrides: { clock: clock.now },
  env: { ...DEFAULT_LIMITS_ENV },
});
let owner: RecipientClient;

type Order = Awaited<ReturnType<typeof placeOrder>>;

beforeAll(async () => {
  owner = environment.newWallet();
  await assignUsername(environment.database, owner.pubkey, 'alice');
});

it('takes 60 orders a minute and sees each payment at its next request, with the default limits', async () => {
  // The shop looks for `verify` with an invoice that nobody pays.
  expect(await requestInvoice(1_000, '')).toMatchObject({ verify: expect.any(String) });

  const openOrders = new Set<Order>();
  const settledOrders: Order[] = [];
  for (let second = 0; second < LAST_SECOND; second += 1) {
    clock.advance(SECOND_MS);
    if (second < ORDER_COUNT) {
      openOrders.add(await placeOrder(second));
    }
    for (const order of openOrders) {
      if (order.paidAtSecond === second) {
        await pay(order);
      }
      if ((second - order.startedAtSecond) % VERIFY_INTERVAL_SECONDS === 0) {
        const settled = order.paidAtSecond !== null && second >= order.paidAtSecond;
        const { pr } = order;
        expect(await get(order.verify)).toEqual({ status: 'OK', settled, preimage: null, pr });
        if (settled) {
          openOrders.delete(order);
          settledOrders.push(order);
        }
      }
    }
  }
  expect(openOrders.size).toBe(ORDER_COUNT / ABANDONED_ORDERS);
  const listed = await owner.listPaidQuotes();
  const toKey = (amount: unknown, comment: unknown) => `${amount} ${comment}`;
  expect(listed.map(({ amount, comment }) => toKey(amount, comment)).toSorted()).toEqual(
    settledOrders.map(({ amountSat, text }) => toKey(amountSat, text)).toSorted(),
  );
  expect(new Set(listed.map(({ tag }) => tag))).toEqual(new Set(['shop']));
});

async function placeOrder(second: number) {
  const amountSat = 1_000 + second;
  const text = `Paid to Alice’s shop (Order ID: ${second})`;
  const { pr, verify } = await requestInvoice(amountSat * 1_000, text);
  expect(decodeInvoice(pr)?.amountMsat).toBe(amountSat * 1_000);
  const isAbandoned = second % ABANDONED_ORDERS === 0;
  // Between 10 and 40 s later.
  const paidAtSecond = isAbandoned ? null : second + 10 + ((second * 7) % 30);
  return { text, amountSat, startedAtSecond: second, paidAtSecond, pr, verify };
}

async function requestInvoice(amountMsat: number, comment: string) {
  const terms = await get(`${environment.origin}/.well-known/lnurlp/alice+shop`);
  expect(terms).toMatchObject({ tag: 'payRequest' });
  expect(terms.commentAllowed).toBeGreaterThanOrEqual(comment.length);
  const query = new URLSearchParams({ amount: String(amountMsat), comment });
  return get(`${terms.callback}?${query}`);
}

// biome-ignore lint/suspicious/noExplicitAny: the test asserts the shape of responses.
async function get(url: string): Promise<any> {
  const { status, body } = await requestJson(url, '');
  expect({ status, body }).toMatchObject({ status: 200, body: expect.any(Object) });
  return body;
}

async function pay({ pr }: Order): Promise<void> {
  environment.mint.pay(pr);
  const quotes = environment.database.db.selectFrom('quotes').where('request', '=', pr);
  await eventually(async () =>
    expect(await quotes.select('state').execute()).toEqual([{ state: 'PAID' }]),
  );
}
