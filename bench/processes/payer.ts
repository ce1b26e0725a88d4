import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { WebSocket } from 'ws';
import { type TestSocket, TestWallet } from '../../test/helpers/wallet.ts';
import { PUBLIC_ORIGIN } from '../harness/servers.ts';

/** What is to be paid, and where one listens: standard input. */
export interface PaymentPlan {
  /** `payUrl` takes `POST {"request"}`. */
  mints: { url: string; payUrl: string }[];
  /** The service and its recipients; null: quotes of the mints, and one bare socket of each (NUT-17). */
  service: { url: string; recipients: PaidRecipient[] } | null;
  /** Paid before the measuring, one after the other. */
  warmUps: number;
  /** Paid at a steady rate. */
  payments: number;
  perSecond: number;
}

/** Somebody whose wallet listens at the service, and who is paid in turn with the others. */
interface PaidRecipient {
  /** Hex. */
  secretKey: string;
  /** The number of the recipient's mint. */
  mint: number;
}

/**
 * The second line of standard output; the first is `"warm"`, as the measuring begins, and the last, when it is over,
 * {@link Mistaken}.
 */
export interface PaymentResult {
  /** From the payer's word to the mint until the news of the payment. */
  latenciesMs: number[];
  /** From the first to the last word to a mint. */
  seconds: number;
  /** Updates that told of a quote that an update had told of before. */
  toldTwice: number;
  /** Updates that came beside one for each payment. */
  unread: number;
}

/** How many updates told of another quote than was paid, or of one that is not listed as paid. */
export type Mistaken = number;

/** An invoice that somebody is going to pay. */
interface Invoice {
  /** BOLT 11. */
  request: string;
  payUrl: string;
  /** Called as it is paid; resolves with when the news of the payment came (`performance.now()`). */
  hear: () => Promise<number>;
}

/** What a wallet was told when its invoice was paid. */
interface Told {
  wallet: TestWallet;
  /** BOLT 11. */
  paid: string;
  quoteId: string;
}

/** A quote of a wallet's list. */
interface Listed {
  quoteId: string;
  request: string;
  state: string;
}

const LIST = '/api/v2/wallet/quotes';

/** What is prepared, or looked at, at a time. */
const CONCURRENCY = 16;

/** Pays invoices and takes the time until it hears of each payment. */

const plan = (await json(process.stdin)) as PaymentPlan;
const sockets: TestSocket[] = [];
const told: Told[] = [];
const count = plan.payments + plan.warmUps;
const invoices =
  plan.service === null
    ? await invoicesOfMints(count)
    : await invoicesOfService(plan.service.url, plan.service.recipients, count);

// The newest come first: when a mint's socket tells of these, it covers all the others too.
for (const invoice of invoices.splice(plan.payments)) {
  await pay(invoice);
}
say('warm');
const startedAt = performance.now();
let lastPaidAt = startedAt;
const latenciesMs = await Promise.all(
  invoices.map(async (invoice, index) => {
    const dueAt = startedAt + (index * 1000) / plan.perSecond;
    await delay(Math.max(0, dueAt - performance.now()));
    lastPaidAt = performance.now();
    return pay(invoice);
  }),
);
const seconds = (lastPaidAt - startedAt) / 1000;
const unread = (await inTurns(sockets, (socket) => socket.drain())).flat().length;
const toldTwice = told.length - new Set(told.map(({ quoteId }) => quoteId)).size;
say({ latenciesMs, seconds, toldTwice, unread });
say(await countMistaken());

async function pay(invoice: Invoice): Promise<number> {
  const heard = invoice.hear();
  const paidAt = performance.now();
  const answer = await postJson(invoice.payUrl, { request: invoice.request });
  await answer.dump();
  return (await heard) - paidAt;
}

/** Recipients in turn, each with a wallet that has a socket open. */
async function invoicesOfService(
  url: string,
  recipients: PaidRecipient[],
  count: number,
): Promise<Invoice[]> {
  const listening = await inTurns(recipients, async ({ secretKey, mint }) => {
    const wallet = new TestWallet(url, Date.now, Buffer.from(secretKey, 'hex'));
    const socket = await wallet.openSocket();
    sockets.push(socket);
    return { wallet, mint, socket };
  });
  return inTurns(numbersBelow(count), async (number) => {
    const { wallet, mint, socket } = inTurn(listening, number);
    const answer = await request(`${url}/.well-known/lnurlp/${wallet.npub}?amount=21000`);
    const invoice = (await answer.body.json()) as { pr?: string };
    if (invoice.pr === undefined) {
      throw new Error(`no invoice: the service answered ${answer.statusCode}`);
    }
    const { pr } = invoice;
    return {
      request: pr,
      payUrl: inTurn(plan.mints, mint).payUrl,
      hear: () => nextUpdate(socket, wallet, pr),
    };
  });
}

/** A wallet hears of its payments in the order in which they were made. */
async function nextUpdate(socket: TestSocket, wallet: TestWallet, paid: string): Promise<number> {
  const { type, payload } = await socket.next();
  const heardAt = performance.now();
  if (type !== 'update') {
    throw new Error(`the quote socket said ${type}`);
  }
  told.push({ wallet, paid, quoteId: payload.quoteId });
  return heardAt;
}

/** An update has the id of its quote alone; of which invoice that is, and how it stands, the wallet's list says. */
async function countMistaken(): Promise<Mistaken> {
  const byWallet = [...Map.groupBy(told, ({ wallet }) => wallet)];
  const mistaken = await inTurns(byWallet, async ([wallet, ofWallet]) => {
    const listed = new Map((await listPaid(wallet)).map((quote) => [quote.quoteId, quote]));
    return ofWallet.filter(({ quoteId, paid }) => {
      const quote = listed.get(quoteId);
      return quote?.request !== paid || quote.state !== 'PAID';
    });
  });
  return mistaken.flat().length;
}

/** A wallet's newest payments, more than it has here. */
async function listPaid(wallet: TestWallet): Promise<Listed[]> {
  const authorization = wallet.sign(LIST, 'GET', { url: `${PUBLIC_ORIGIN}${LIST}` });
  const answer = await request(`${wallet.base}${LIST}`, { headers: { authorization } });
  if (answer.statusCode !== 200) {
    throw new Error(`no list: the service answered ${answer.statusCode}`);
  }
  const { data } = (await answer.body.json()) as { data: { quotes: Listed[] } };
  return data.quotes;
}

/** Mints in turn; all quotes of a mint on one socket, as a watcher would have it. */
async function invoicesOfMints(count: number): Promise<Invoice[]> {
  const quotes = await inTurns(numbersBelow(count), async (number) => {
    const mint = inTurn(plan.mints, number);
    const answer = await postJson(`${mint.url}/v1/mint/quote/bolt11`, { amount: 21, unit: 'sat' });
    const quote = (await answer.json()) as { quote: string; request: string };
    return { ...quote, mint, told: Promise.withResolvers<number>() };
  });
  for (const [mint, ofMint] of Map.groupBy(quotes, (quote) => quote.mint)) {
    const toldById = new Map(ofMint.map(({ quote, told }) => [quote, told]));
    const socket = new WebSocket(`${mint.url.replace(/^http/, 'ws')}/v1/ws`);
    socket.on('open', () => {
      const params = { kind: 'bolt11_mint_quote', subId: 'all', filters: [...toldById.keys()] };
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscribe', params }));
    });
    socket.on('message', (data) => {
      const { params } = JSON.parse(String(data)) as MintMessage;
      if (params?.payload.state === 'PAID') {
        toldById.get(params.payload.quote)?.resolve(performance.now());
      }
    });
  }
  return quotes.map(({ request, mint, told }) => ({
    request,
    payUrl: mint.payUrl,
    hear: () => told.promise,
  }));
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

function inTurn<Each>(each: readonly Each[], number: number): Each {
  const chosen = each[number % each.length];
  if (chosen === undefined) {
    throw new RangeError('there is nothing to choose from');
  }
  return chosen;
}

function numbersBelow(count: number): number[] {
  return Array.from({ length: count }, (_, number) => number);
}

function say(message: 'warm' | PaymentResult | Mistaken): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
