import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { type Client, pause } from '../faults/client.ts';
import type { Findings } from '../faults/findings.ts';
import type { Site } from '../faults/site.ts';
import type { TestWallet } from '../helpers/wallet.ts';
import { zapQuery, zapRequest } from '../helpers/zap-requests.ts';
import type { CheckName } from './findings.ts';
import type { PlannedZap } from './plan.ts';
import type { StormRelay } from './relays.ts';
import type { HeldInvoice, Truth } from './truth.ts';

/** Between one payer and the next. */
const ARRIVAL_INTERVAL_MS = 120;

/** The storm has failed if its kills have not interrupted enough deliveries by then. */
const STORM_DEADLINE_MS = 120_000;

/** How long a payer tries to get an invoice. */
const PATIENCE_MS = 60_000;

/** Between two requests of one payer. */
const SHORTEST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 800;

/** What {@link Payers} need. */
interface PayersParts {
  site: Site;
  relays: readonly StormRelay[];
  truth: Truth;
  client: Client;
  findings: Findings<CheckName>;
  dice: Dice;
  /** Sends them home before their time. */
  signal: AbortSignal;
}

/** The payers of a run. */
export class Payers {
  readonly #parts: PayersParts;
  #retries = 0;

  constructor(parts: PayersParts) {
    this.#parts = parts;
  }

  /** Requests for an invoice that were refused or got no answer. */
  get retries(): number {
    return this.#retries;
  }

  /**
   * Lets payers come at a steady rate: so many, and then until it is enough or too late.
   *
   * @returns when the last of them has paid
   */
  async run(
    zaps: number,
    plan: (number: number) => PlannedZap,
    isEnough: () => boolean,
  ): Promise<void> {
    const { signal } = this.#parts;
    const tooLateAtMs = Date.now() + STORM_DEADLINE_MS;
    const playing: Promise<void>[] = [];
    for (let number = 1; number <= zaps || !(isEnough() || Date.now() > tooLateAtMs); number += 1) {
      playing.push(this.#play(plan(number)));
      if (!(await pause(ARRIVAL_INTERVAL_MS, signal))) {
        break;
      }
    }
    await Promise.all(playing);
  }

  async #play(planned: PlannedZap): Promise<void> {
    const { signal, truth, findings } = this.#parts;
    const invoice = await this.#getInvoice(planned);
    if (invoice === null || planned.payAfterMs === null) {
      return;
    }
    if (!(await pause(planned.payAfterMs, signal))) {
      return;
    }
    try {
      truth.pay(invoice);
    } catch {
      findings.note('invoices', `zap ${planned.number}: the mint does not know its invoice`);
    }
  }

  /** Asks one process or the other until there is an invoice. */
  async #getInvoice({ number, recipient, ...planned }: PlannedZap): Promise<HeldInvoice | null> {
    const { truth, site, relays, client, findings, signal } = this.#parts;
    const dice = this.#parts.dice.fork(`payer ${number}`);
    const wallet = truth.recipients[recipient] as TestWallet;
    const amountMsat = planned.amountSat * 1000;
    const named = relays.filter((_, index) => planned.relays.includes(index));
    const text = planned.isZap
      ? zapRequest({
          recipient: wallet.pubkey,
          amountMsat,
          relays: dice.shuffled(named.map(({ url }) => url)),
          comment: `zap ${number} ⚡ "verbatim"`,
        }).text
      : null;
    const query = text === null ? `amount=${amountMsat}` : zapQuery(text, amountMsat);
    const path = `/.well-known/lnurlp/${wallet.npub}?${query}`;
    const deadline = Date.now() + PATIENCE_MS;
    while (Date.now() < deadline && !signal.aborted) {
      const answer = await client.ask(site.anyOrigin(dice), path);
      if (typeof answer?.body?.pr === 'string') {
        const invoice: HeldInvoice = {
          number,
          recipient: wallet,
          request: answer.body.pr,
          zapRequest: text,
          relays: relays.filter((relay) => relay.isOperators || named.includes(relay)),
          isPaid: false,
        };
        truth.hold(invoice);
        return invoice;
      }
      this.#retries += 1;
      await pause(dice.between(SHORTEST_RETRY_MS, LONGEST_RETRY_MS), signal);
    }
    findings.note('invoices', `zap ${number}: no invoice in ${PATIENCE_MS / 1000} s`);
    return null;
  }
}
