import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { type TestSocket, TestWallet } from '../../test/helpers/wallet.ts';
import { PUBLIC_ORIGIN } from '../harness/servers.ts';

/** What to pay, and at which service: standard input. */
export interface PaymentPlan {
  /** The service. */
  url: string;
  /** Takes `POST {"request"}` and pays that invoice. */
  payUrl: string;
  /** Secret keys (hex) of recipients, who are paid in turn and have a quote socket each. */
  secretKeys: string[];
  /** Paid first at the same rate, and not measured. */
  warmUps: number;
  payments: number;
  /** Invoices requested a second; each is paid `paidAfterMs` later. */
  perSecond: number;
  paidAfterMs: number;
}

/**
 * The second line of standard output; the first is `"warm"`, when measuring begins, and the last is
 * {@link WrongUpdates}.
 */
export interface PaymentResult {
  /** From the payment at the mint until the recipient's `update`. */
  latenciesMs: number[];
  /** From the first to the last request for an invoice. */
  seconds: number;
  /** Updates about a quote that an update was sent about before. */
  repeated: number;
  /** Updates beyond one for each payment. */
  unread: number;
}

/** How many updates were about a quote that was not paid, or that is not listed as paid. */
export type WrongUpdates = number;

/** A recipient's wallet with its quote socket. */
interface Recipient {
  wallet: TestWallet;
  socket: TestSocket;
}

/** An update, and the invoice whose payment caused it. */
interface Update {
  wallet: TestWallet;
  /** BOLT 11. */
  paid: string;
  quoteId: string;
}

interface ListedQuote {
  quoteId: string;
  request: string;
  state: string;
}

const LIST_PATH = '/api/v2/wallet/quotes';

/** Sockets that are opened, and lists that are read, at a time. */
const CONCURRENCY = 16;

/** Requests invoices at a steady rate, pays each a moment later, and measures when its `update` comes. */

const plan = (await json(process.stdin)) as PaymentPlan;
const updates: Update[] = [];
const recipients = await inBatches(plan.secretKeys, async (secretKey): Promise<Recipient> => {
  const wallet = new TestWallet(plan.url, Date.now, Buffer.from(secretKey, 'hex'));
  return { wallet, socket: await wallet.openSocket() };
});

await payAtSteadyRate(plan.warmUps);
print('warm');
const { latenciesMs, seconds } = await payAtSteadyRate(plan.payments);
const unread = (await inBatches(recipients, ({ socket }) => socket.drain())).flat().length;
const repeated = updates.length - new Set(updates.map(({ quoteId }) => quoteId)).size;
print({ latenciesMs, seconds, repeated, unread });
print(await countWrong());
await inBatches(recipients, ({ socket }) => socket.close());

async function payAtSteadyRate(count: number) {
  const startedAt = performance.now();
  let lastRequestAt = startedAt;
  const latenciesMs = await Promise.all(
    Array.from({ length: count }, async (_, number) => {
      const dueAt = startedAt + (number * 1000) / plan.perSecond;
      await delay(Math.max(0, dueAt - performance.now()));
      lastRequestAt = performance.now();
      return pay(recipients[number % recipients.length] as Recipient);
    }),
  );
  return { latenciesMs, seconds: (lastRequestAt - startedAt) / 1000 };
}

/** Returns how long the `update` took. A recipient's payments are further apart than that. */
async function pay({ wallet, socket }: Recipient): Promise<number> {
  const answer = await request(`${plan.url}/.well-known/lnurlp/${wallet.npub}?amount=21000`);
  const { pr } = (await answer.body.json()) as { pr?: string };
  if (pr === undefined) {
    throw new Error(`no invoice: the service answered ${answer.statusCode}`);
  }
  await delay(plan.paidAfterMs);
  const paidAt = performance.now();
  const update = socket.next();
  await payAtMint(pr);
  const { type, payload } = await update;
  if (type !== 'update') {
    throw new Error(`the quote socket sent ${type}`);
  }
  const tookMs = performance.now() - paidAt;
  updates.push({ wallet, paid: pr, quoteId: payload.quoteId });
  return tookMs;
}

async function payAtMint(invoice: string): Promise<void> {
  const answer = await request(plan.payUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: invoice }),
  });
  if (answer.statusCode >= 300) {
    throw new Error(`${plan.payUrl} answered ${answer.statusCode}: ${await answer.body.text()}`);
  }
  await answer.body.dump();
}

/** An update names its quote alone; the wallet's list says which invoice that is, and its state. */
async function countWrong(): Promise<WrongUpdates> {
  const byWallet = [...Map.groupBy(updates, ({ wallet }) => wallet)];
  const wrong = await inBatches(byWallet, async ([wallet, ofWallet]) => {
    const listed = new Map((await listNewest(wallet)).map((quote) => [quote.quoteId, quote]));
    return ofWallet.filter(({ quoteId, paid }) => {
      const quote = listed.get(quoteId);
      return quote?.request !== paid || quote.state !== 'PAID';
    });
  });
  return wrong.flat().length;
}

/** The first page, which is longer than what a wallet is paid here. */
async function listNewest(wallet: TestWallet): Promise<ListedQuote[]> {
  const authorization = wallet.sign(LIST_PATH, 'GET', { url: `${PUBLIC_ORIGIN}${LIST_PATH}` });
  const answer = await request(`${wallet.base}${LIST_PATH}`, { headers: { authorization } });
  if (answer.statusCode !== 200) {
    throw new Error(`no list: the service answered ${answer.statusCode}`);
  }
  const { data } = (await answer.body.json()) as { data: { quotes: ListedQuote[] } };
  return data.quotes;
}

/** Does something with each item, a few at a time; results in the same order. */
async function inBatches<From, To>(
  items: readonly From[],
  work: (item: From) => Promise<To>,
): Promise<To[]> {
  const done: To[] = [];
  for (let i = 0; i < items.length; i += CONCURRENCY) {
    done.push(...(await Promise.all(items.slice(i, i + CONCURRENCY).map(work))));
  }
  return done;
}

function print(message: 'warm' | PaymentResult | WrongUpdates): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
