import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { readInvoice } from '../../src/domain/bolt11.ts';
import { type Client, pause } from './client.ts';
import type { Findings } from './findings.ts';
import type { PlannedPayment } from './plan.ts';
import type { Site } from './site.ts';
import type { HeldInvoice, Payment, Recipient, Truth } from './truth.ts';

/** How long a payer tries to get an invoice. */
const PATIENCE_MS = 60_000;

/** Between two requests of one payer. */
const SHORTEST_RETRY_MS = 200;
const LONGEST_RETRY_MS = 1_500;

/** What {@link Payers} need. */
interface PayersParts {
  site: Site;
  truth: Truth;
  client: Client;
  findings: Findings;
  dice: Dice;
  /** Ends their work early. */
  signal: AbortSignal;
}

/** The payers of a run, and the wallets that collect what they pay. */
export class Payers {
  readonly #parts: PayersParts;
  #refusals = 0;
  #lostAnswers = 0;
  #issued = 0;
  readonly #waitsMs: number[] = [];

  constructor(parts: PayersParts) {
    this.#parts = parts;
  }

  /** How long each payer that got an invoice waited for it, in milliseconds. */
  get waitsMs(): readonly number[] {
    return this.#waitsMs;
  }

  /** Requests for an invoice that were refused. */
  get refusals(): number {
    return this.#refusals;
  }

  /** Requests for an invoice that got no answer. */
  get lostAnswers(): number {
    return this.#lostAnswers;
  }

  /** Payments that were collected. */
  get issued(): number {
    return this.#issued;
  }

  /**
   * Carries out the plan. Resolves when the last quote is paid and issued.
   *
   * @param onDone called after each payer with the number of payers left
   */
  async run(plan: readonly PlannedPayment[], onDone: (left: number) => void): Promise<void> {
    let left = plan.length;
    const play = async (planned: PlannedPayment) => {
      await this.#play(planned);
      left -= 1;
      onDone(left);
    };
    await Promise.all(plan.map(play));
  }

  async #play(planned: PlannedPayment): Promise<void> {
    const { signal, truth, findings } = this.#parts;
    await pause(planned.askAtMs, signal);
    const invoice = await this.#getInvoice(planned);
    if (invoice === null || planned.payAfterMs === null) {
      return;
    }
    if (!(await pause(planned.payAfterMs, signal))) {
      return;
    }
    let payment: Payment;
    try {
      payment = truth.pay(invoice);
    } catch {
      findings.note('invoices', `payment ${planned.number}: the mint does not know its invoice`);
      return;
    }
    if (planned.issueAfterMs !== null && (await pause(planned.issueAfterMs, signal))) {
      await invoice.recipient.mint.mint.issue(payment.quoteId);
      this.#issued += 1;
    }
  }

  /** Asks processes at random until one returns an invoice. */
  async #getInvoice(planned: PlannedPayment): Promise<HeldInvoice | null> {
    const { truth, site, client, findings, signal } = this.#parts;
    const dice = this.#parts.dice.fork(`payer ${planned.number}`);
    const recipient = truth.recipients[planned.recipient] as Recipient;
    const amountMsat = planned.amountSat * 1000;
    const path = `/.well-known/lnurlp/${recipient.wallet.npub}?amount=${amountMsat}`;
    const askedAtMs = performance.now();
    const waitedMs = () => performance.now() - askedAtMs;
    while (waitedMs() < PATIENCE_MS && !signal.aborted) {
      const answer = await client.ask(site.anyOrigin(dice), path);
      if (answer?.body?.pr !== undefined) {
        const { pr, verify } = answer.body as { pr: string; verify: string };
        if (readInvoice(pr)?.amountMsat !== amountMsat) {
          findings.note(
            'invoices',
            `payment ${planned.number}: the invoice has a different amount`,
          );
        }
        const invoice: HeldInvoice = {
          number: planned.number,
          recipient,
          amountSat: planned.amountSat,
          request: pr,
          verifyPath: new URL(verify).pathname,
          payment: null,
        };
        truth.invoices.push(invoice);
        this.#noteWait(planned.number, waitedMs());
        return invoice;
      }
      if (answer === null) {
        this.#lostAnswers += 1;
      } else {
        this.#refusals += 1;
      }
      await pause(dice.between(SHORTEST_RETRY_MS, LONGEST_RETRY_MS), signal);
    }
    findings.note('served', `payment ${planned.number}: no invoice`);
    return null;
  }

  #noteWait(number: number, waitMs: number): void {
    this.#waitsMs.push(waitMs);
    if (waitMs > PATIENCE_MS) {
      const seconds = (waitMs / 1000).toFixed(1);
      this.#parts.findings.note('served', `payment ${number}: an invoice after ${seconds} s`);
    }
  }
}
