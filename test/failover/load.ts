import { setTimeout as delay } from 'node:timers/promises';
import type { StormObservations } from '../faults/payments/checks.ts';
import type { IssuedInvoice, Recipient } from '../faults/payments/expected-payments.ts';
import { issueInvoice, payAndRedeem } from '../faults/payments/payer.ts';
import { sleepUnlessAborted } from '../faults/storm-client.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';

const PAYER_INTERVAL_MS = 100;

/** Short, so that many invoices are paid while the database is unavailable. */
const MAX_PAYMENT_DELAY_MS = 3_000;

const MAX_REDEMPTION_DELAY_MS = 3_000;

const MAX_AMOUNT_SAT = 5_000;

/** 20 requests a second measure the time without service with a resolution of 50 ms. */
const PROBE_INTERVAL_MS = 50;

const VERIFY_INTERVAL_MS = 200;

/** The payers and wallets of a scenario, besides those of the fault tests. */
export class Load {
  readonly #run: StormObservations;
  readonly #probeRecipient: Recipient;
  readonly #settledInvoices = new Set<IssuedInvoice>();

  constructor(run: StormObservations, mint: Recipient['mint']) {
    this.#run = run;
    this.#probeRecipient = { index: -1, wallet: new RecipientClient(this.#origin), mint };
  }

  /** Requests invoices until the signal aborts. @returns the longest time without an invoice */
  probeInvoices(signal: AbortSignal): Promise<number> {
    return measureLongestGap(signal, () => this.#probeInvoice(this.#probeRecipient));
  }

  /** Requests lists until the signal aborts. @returns the longest time without a list */
  probeLists(signal: AbortSignal): Promise<number> {
    return measureLongestGap(signal, () => this.#probeList());
  }

  /** Payers start at a steady rate until the signal aborts. Resolves when all of them have paid. */
  async payUntilAborted(signal: AbortSignal): Promise<void> {
    await startSteadily(PAYER_INTERVAL_MS, signal, (index) => this.#pay(index + 1));
  }

  async readVerifyUrlsUntilAborted(): Promise<void> {
    await startSteadily(VERIFY_INTERVAL_MS, this.#run.signal, () => this.#readVerifyUrl());
  }

  get #origin(): string {
    return this.#run.pickOrigin(this.#run.random);
  }

  async #pay(payerNumber: number): Promise<void> {
    const { expectedPayments, signal } = this.#run;
    const random = this.#run.random.fork(`payment ${payerNumber}`);
    const recipient = random.pick(expectedPayments.recipients);
    const amountSat = 1 + Math.floor(random.next() * MAX_AMOUNT_SAT);
    await this.#run.request(this.#origin, `/.well-known/lnurlp/${recipient.wallet.npub}`);
    const invoice = await issueInvoice(this.#run, payerNumber, recipient, amountSat);
    const paymentDelayMs = random.between(0, MAX_PAYMENT_DELAY_MS);
    if (invoice !== null && (await sleepUnlessAborted(paymentDelayMs, signal))) {
      await payAndRedeem(this.#run, invoice, random, MAX_REDEMPTION_DELAY_MS);
    }
  }

  /** Requests an invoice once. It stays unpaid, but its quote must not get lost either. */
  async #probeInvoice(recipient: Recipient): Promise<boolean> {
    const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=1000`;
    const response = await this.#run.request(this.#origin, path);
    if (response === null) {
      return false;
    }
    const { pr: request, verify } = response.body;
    this.#run.expectedPayments.invoices.push({
      number: 0,
      recipient,
      amountSat: 1,
      request,
      verifyPath: new URL(verify).pathname,
      payment: null,
    });
    return true;
  }

  async #probeList(): Promise<boolean> {
    const [recipient] = this.#run.expectedPayments.recipients;
    const path = '/api/v2/wallet/quotes';
    const authorization = recipient?.wallet.signRequest(path) ?? '';
    return (await this.#run.request(this.#origin, path, { headers: { authorization } })) !== null;
  }

  /** Checks that an invoice is known, and that it never stops being settled. */
  async #readVerifyUrl(): Promise<void> {
    const { expectedPayments, checkRecorder, random } = this.#run;
    if (expectedPayments.invoices.length === 0) {
      return;
    }
    const invoice = random.pick(expectedPayments.invoices);
    const wasSettled = this.#settledInvoices.has(invoice);
    const response = await this.#run.request(this.#origin, invoice.verifyPath);
    if (response === null) {
      return;
    }
    const { pr, settled } = response.body;
    if (pr !== invoice.request || (settled ? invoice.payment === null : wasSettled)) {
      checkRecorder.addProblem('verify', `payment ${invoice.number}: settled is ${settled}`);
    }
    if (settled) {
      this.#settledInvoices.add(invoice);
    }
  }
}

async function measureLongestGap(
  signal: AbortSignal,
  send: () => Promise<boolean>,
): Promise<number> {
  const timesMs = [performance.now()];
  await startSteadily(PROBE_INTERVAL_MS, signal, async () => {
    if (await send()) {
      timesMs.push(performance.now());
    }
  });
  timesMs.push(performance.now());
  return Math.max(...timesMs.slice(1).map((at, index) => at - (timesMs[index] ?? at)));
}

/** Calls `act` at a steady rate, however long each call takes. Resolves when the signal aborted and all calls ended. */
async function startSteadily(
  intervalMs: number,
  signal: AbortSignal,
  act: (index: number) => Promise<void>,
): Promise<void> {
  const pending = new Set<Promise<void>>();
  for (let index = 0; !signal.aborted; index += 1) {
    const call = act(index).finally(() => pending.delete(call));
    pending.add(call);
    await delay(intervalMs, undefined, { signal }).catch(() => undefined);
  }
  await Promise.all(pending);
}
