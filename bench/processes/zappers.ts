import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { generateSecretKey, nip19 } from 'nostr-tools';
import { makeZapRequest } from 'nostr-tools/nip57';
import { request } from 'undici';
import { type EventSigner, loadEventSigner } from '../../src/auth/event-signer.ts';
import { zapQuery } from '../../test/helpers/zap-requests.ts';

/** What is to be zapped: standard input. */
export interface ZapPlan {
  serviceUrl: string;
  /** Whom, in turns. */
  recipients: ZapRecipient[];
  /** What every zap request names. */
  relays: string[];
  /** Paid before the measuring, each once the one before is settled. */
  warmUps: number;
  zaps: number;
  /** A steady rate; null: as fast as the mint takes them. */
  perSecond: number | null;
}

/** Somebody who is zapped. */
export interface ZapRecipient {
  /** Hex. */
  pubkey: string;
  /** Takes an invoice of the recipient's mint that is posted, and pays it. */
  payUrl: string;
}

/** The line of standard output: what was paid, the warm-ups first. */
export interface ZapResult {
  warmUps: number;
  paid: PaidZap[];
}

export interface PaidZap {
  /** BOLT 11. */
  invoice: string;
  /** As its sender signed it. */
  zapRequest: string;
  /** The moment before the mint had it; milliseconds since 1970. */
  paidAtMs: number;
}

/** Senders of zaps, in turns. */
const SENDERS = 50;

const AMOUNT_MSAT = 21_000;

/** Invoices, or payments, at a time. */
const CONCURRENCY = 16;

/** How often it is asked whether a warm-up is settled. */
const SETTLED_POLL_MS = 5;

/** Asks for the invoices of zaps, and pays them. */

const plan = (await json(process.stdin)) as ZapPlan;
const senders = await Promise.all(Array.from({ length: SENDERS }, newSender));
const numbers = Array.from({ length: plan.warmUps + plan.zaps }, (_, number) => number);
const invoices = await inTurns(numbers, getInvoice);

// The newest come first: when the watcher's socket tells of these, it covers all the others too.
const paid: PaidZap[] = [];
for (const invoice of invoices.splice(plan.zaps)) {
  paid.push(await pay(invoice));
  await settled(invoice.verifyUrl);
}
paid.push(...(await (plan.perSecond === null ? inTurns(invoices, pay) : paySteadily())));
process.stdout.write(`${JSON.stringify({ warmUps: plan.warmUps, paid } satisfies ZapResult)}\n`);

interface Invoice {
  invoice: string;
  payUrl: string;
  zapRequest: string;
  verifyUrl: string;
}

async function getInvoice(number: number): Promise<Invoice> {
  const recipient = plan.recipients[number % plan.recipients.length];
  const sender = senders[number % SENDERS];
  if (recipient === undefined || sender === undefined) {
    throw new Error('every zap has a sender and a recipient');
  }
  const { pubkey, payUrl } = recipient;
  const zapRequest = JSON.stringify(
    sender.sign(
      makeZapRequest({
        pubkey,
        amount: AMOUNT_MSAT,
        relays: plan.relays,
        comment: `zap ${number}`,
      }),
    ),
  );
  const path = `/.well-known/lnurlp/${nip19.npubEncode(pubkey)}`;
  const query = zapQuery(zapRequest, AMOUNT_MSAT);
  const answer = await request(`${plan.serviceUrl}${path}?${query}`);
  const { pr, verify } = (await answer.body.json()) as { pr?: string; verify?: string };
  if (pr === undefined || verify === undefined) {
    throw new Error(`no invoice for zap ${number}: the service answered ${answer.statusCode}`);
  }
  const verifyUrl = `${plan.serviceUrl}${new URL(verify).pathname}`;
  return { invoice: pr, payUrl, zapRequest, verifyUrl };
}

function newSender(): Promise<EventSigner> {
  return loadEventSigner(Buffer.from(generateSecretKey()).toString('hex'));
}

async function paySteadily(): Promise<PaidZap[]> {
  const { perSecond } = plan;
  const startedAt = performance.now();
  return await Promise.all(
    invoices.map(async (invoice, index) => {
      const dueAt = startedAt + (index * 1000) / (perSecond ?? 1);
      await delay(Math.max(0, dueAt - performance.now()));
      return await pay(invoice);
    }),
  );
}

async function pay({ invoice, payUrl, zapRequest }: Invoice): Promise<PaidZap> {
  const paidAtMs = performance.timeOrigin + performance.now();
  const answer = await request(payUrl, { method: 'POST', body: invoice });
  if (answer.statusCode !== 200) {
    throw new Error(`an invoice was not paid: ${await answer.body.text()}`);
  }
  await answer.body.dump();
  return { invoice, zapRequest, paidAtMs };
}

async function settled(verifyUrl: string): Promise<void> {
  for (;;) {
    const answer = await request(verifyUrl);
    if (((await answer.body.json()) as { settled?: boolean }).settled === true) {
      return;
    }
    await delay(SETTLED_POLL_MS);
  }
}

/** Does something with each, so many at a time; results in the same order. */
async function inTurns<From, To>(
  items: readonly From[],
  work: (item: From) => Promise<To>,
): Promise<To[]> {
  const done: To[] = [];
  const waiting = items.entries();
  const worker = async () => {
    for (const [index, item] of waiting) {
      done[index] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return done;
}
