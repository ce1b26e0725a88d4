import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { WebSocket } from 'ws';
import { TestWallet } from '../../test/helpers/wallet.ts';

/** What is to be paid, and where one listens: standard input. */
export interface PaymentPlan {
  /** Takes `POST {"request"}`. */
  payUrl: string;
  /** The service: an invoice of it, and the quote socket, for each payment. */
  serviceUrl?: string;
  /** Without a service: quotes of this mint, and one bare socket of it (NUT-17). */
  mintUrl: string;
  /** Paid before the measuring, one after the other. */
  warmUps: number;
  /** Paid at a steady rate. */
  payments: number;
  perSecond: number;
}

/** The line of standard output. */
export interface PaymentResult {
  /** From the payer's word to the mint until the news of the payment. */
  latenciesMs: number[];
}

/** An invoice that somebody is going to pay. */
interface Invoice {
  /** BOLT 11. */
  request: string;
  /** When the news came that it is paid (`performance.now()`). */
  heardAt: Promise<number>;
}

/** Invoices that are asked for at a time. */
const CONCURRENCY = 16;

/** Pays invoices and takes the time until it hears of each payment. */

const plan = (await json(process.stdin)) as PaymentPlan;
const count = plan.payments + plan.warmUps;
const invoices =
  plan.serviceUrl === undefined
    ? await invoicesOfMint(count)
    : await invoicesOfService(plan.serviceUrl, count);

// The newest come first: when the watcher's socket tells of these, it covers all the others too.
for (const invoice of invoices.splice(plan.payments)) {
  await pay(invoice);
}
const startedAt = performance.now();
const latenciesMs = await Promise.all(
  invoices.map(async (invoice, index) => {
    const dueAt = startedAt + (index * 1000) / plan.perSecond;
    await delay(Math.max(0, dueAt - performance.now()));
    return pay(invoice);
  }),
);
process.stdout.write(`${JSON.stringify({ latenciesMs } satisfies PaymentResult)}\n`);

async function pay(invoice: Invoice): Promise<number> {
  const paidAt = performance.now();
  await postJson(plan.payUrl, { request: invoice.request });
  return (await invoice.heardAt) - paidAt;
}

/** Each of another recipient, whose wallet has a socket open. */
async function invoicesOfService(url: string, count: number): Promise<Invoice[]> {
  const wallets = Array.from({ length: count }, () => new TestWallet(url));
  return inTurns(wallets, async (wallet) => {
    const socket = await wallet.openSocket();
    const answer = await request(`${url}/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    const invoice = (await answer.body.json()) as { pr: string };
    const heardAt = socket.next().then(({ type }) => {
      if (type !== 'update') {
        throw new Error(`the quote socket said ${type}`);
      }
      return performance.now();
    });
    return { request: invoice.pr, heardAt };
  });
}

/** All on one socket, as a watcher would have it. */
async function invoicesOfMint(count: number): Promise<Invoice[]> {
  const quotes = await inTurns(Array.from({ length: count }), async () => {
    const answer = await postJson(`${plan.mintUrl}/v1/mint/quote/bolt11`, {
      amount: 21,
      unit: 'sat',
    });
    const quote = (await answer.json()) as { quote: string; request: string };
    return { ...quote, heard: Promise.withResolvers<number>() };
  });
  const byId = new Map(quotes.map((quote) => [quote.quote, quote]));
  const socket = new WebSocket(`${plan.mintUrl.replace(/^http/, 'ws')}/v1/ws`);
  socket.on('open', () => {
    const params = { kind: 'bolt11_mint_quote', subId: 'all', filters: [...byId.keys()] };
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscribe', params }));
  });
  socket.on('message', (data) => {
    const { params } = JSON.parse(String(data)) as MintMessage;
    if (params?.payload.state === 'PAID') {
      byId.get(params.payload.quote)?.heard.resolve(performance.now());
    }
  });
  return quotes.map(({ request, heard }) => ({ request, heardAt: heard.promise }));
}

interface MintMessage {
  params?: { payload: { quote: string; state: string } };
}

async function postJson(url: string, body: object) {
  const answer = await request(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (answer.statusCode >= 300) {
    throw new Error(`${url} answered ${answer.statusCode}: ${await answer.body.text()}`);
  }
  return answer.body;
}

/** Does something with each, a few at a time; results in the same order. */
async function inTurns<From, To>(items: From[], work: (item: From) => Promise<To>): Promise<To[]> {
  const done: To[] = [];
  for (let i = 0; i < items.length; i += CONCURRENCY) {
    done.push(...(await Promise.all(items.slice(i, i + CONCURRENCY).map(work))));
  }
  return done;
}
