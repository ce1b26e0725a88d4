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

const OTHER_READ_INTERVAL_MS = 200;

/** Sends a request at a steady rate, and records when it succeeds. */
class Probe {
  readonly #successTimesMs: number[] = [];
  #endedAtMs = 0;
  readonly #send: () => Promise<boolean>;

  constructor(send: () => Promise<boolean>) {
    this.#send = send;
  }

  async sendUntilAborted(signal: AbortSignal): Promise<void> {
    await startSteadily(PROBE_INTERVAL_MS, signal, async () => {
      if (await this.#send()) {
        this.#successTimesMs.push(performance.now());
      }
    });
    this.#endedAtMs = performance.now();
  }

  /** Returns the longest time between two successive successes, or from the last one to the end. */
  longestGapMs(): number {
    const times = [...this.#successTimesMs, this.#endedAtMs];
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
    return gaps.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...gaps);
  }
}

/** The payers and wallets of a scenario, besides those of the fault tests. */
export class Load {
  readonly payerProbe: Probe;
  readonly walletProbe: Probe;
  readonly #run: StormObservations;
  readonly #settledInvoices = new Set<IssuedInvoice>();

  constructor(run: StormObservations, defaultMint: Recipient['mint']) {
    this.#run = run;
    const origin = run.pickOrigin(run.random);
    const probeRecipient = { index: -1, wallet: new RecipientClient(origin), mint: defaultMint };
    this.payerProbe = new Probe(() => this.#probeInvoice(probeRecipient));
    this.walletProbe = new Probe(() => this.#probeList());
  }

  /** Payers start at a steady rate until the signal aborts. Resolves when all of them have paid. */
  async payUntilAborted(signal: AbortSignal): Promise<void> {
    await startSteadily(PAYER_INTERVAL_MS, signal, (index) => this.#pay(index + 1));
  }

  /** Reads what payers and wallets read besides lists, until the run ends. */
  async readOthersUntilAborted(): Promise<void> {
    const reads = [
      () => this.#readUser(),
      () => this.#readVerifyUrl(),
      () => this.#run.request(this.#origin, '/.well-known/nostr.json?name=nobody'),
      () => this.#readVerifyUrl(),
      () => this.#run.request(this.#origin, '/api/v2/info'),
    ];
    await startSteadily(OTHER_READ_INTERVAL_MS, this.#run.signal, async (index) => {
      await reads[index % reads.length]?.();
    });
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

  async #readUser(): Promise<void> {
    const { wallet, mint } = this.#run.random.pick(this.#run.expectedPayments.recipients);
    const path = '/api/v2/user/info';
    const headers = { authorization: wallet.signRequest(path) };
    const response = await this.#run.request(this.#origin, path, { headers });
    const user = response?.body.data.user;
    if (user !== undefined && (user.pubkey !== wallet.pubkey || user.mintUrl !== mint.url)) {
      this.#run.checkRecorder.addProblem('outcomes', 'user info has other settings');
    }
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
