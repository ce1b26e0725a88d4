import type { NostrKey } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { ConnectionError } from './simulated-network.ts';
import type { Invoice } from './truth.ts';
import type { World } from './world.ts';

/** Somebody who pays one invoice. */
export function startPayer(world: World, number: number, recipient: NostrKey): void {
  const actor = new Actor(`payer-${number}`);
  world.scheduler.start(actor, async () => {
    const invoice = await requestInvoice(world, actor, number, recipient);
    if (invoice === null) {
      return;
    }
    await pay(world, actor, invoice);
    await checkVerify(world, invoice);
  });
}

async function requestInvoice(
  world: World,
  actor: Actor,
  number: number,
  recipient: NostrKey,
): Promise<Invoice | null> {
  const { scheduler, random, proxy, truth, mints, history } = world;
  const amountSat = random.integer(1, 2_000);
  const address = `198.51.${random.integer(0, 100)}.${random.integer(1, 255)}`;
  const path = `/.well-known/lnurlp/${recipient.npub}`;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      const { status, body } = await proxy.request(
        { path: `${path}?amount=${amountSat * 1000}` },
        address,
      );
      if (status === 200 && body.pr !== undefined) {
        const mint = mints.find(({ state }) => state.quotes.findByRequest(body.pr));
        if (mint === undefined) {
          world.referee.report('invoices exist at a mint', body.pr);
          return null;
        }
        history.add(actor, () => `gets an invoice of ${amountSat} sat at ${mint.host}`);
        const verifyPath = new URL(body.verify).pathname;
        const invoice: Invoice = {
          number,
          recipient,
          mint,
          amountSat,
          request: body.pr,
          verifyPath,
          zapRequest: null,
          payment: null,
        };
        truth.invoices.push(invoice);
        return invoice;
      }
      world.failedInvoices += 1;
    } catch (error) {
      if (!(error instanceof ConnectionError)) {
        throw error;
      }
    }
    await scheduler.sleep(random.exponential(2_000));
  }
  return null;
}

async function pay(world: World, actor: Actor, invoice: Invoice): Promise<void> {
  const { scheduler, random, truth, history } = world;
  const choice = random.next();
  if (choice < 0.1) {
    return; // Never pays.
  }
  let delayMs = random.exponential(10_000);
  if (choice < 0.3) {
    // So fast that the service may not watch the invoice yet.
    delayMs = random.exponential(100);
  } else if (choice > 0.95) {
    delayMs = random.exponential(120_000);
  }
  await scheduler.sleep(delayMs);
  const quote = invoice.mint.pay(invoice.request);
  if (quote === null) {
    history.add(actor, () => 'cannot pay');
    return;
  }
  truth.addPayment({ invoice, quoteId: quote.id, paidAtMs: scheduler.nowMs, listedAtMs: null });
}

async function checkVerify(world: World, invoice: Invoice): Promise<void> {
  const { scheduler, random, proxy, referee } = world;
  if (!random.chance(0.2)) {
    return;
  }
  for (let round = 0; round < 5; round += 1) {
    await scheduler.sleep(3_000);
    const requestedAtMs = scheduler.nowMs;
    try {
      const { status, body } = await proxy.request({ path: invoice.verifyPath }, '198.51.100.1');
      if (status === 200) {
        const isPaid = invoice.payment !== null;
        referee.checkVerify(invoice.request, isPaid, body.settled, requestedAtMs);
      }
    } catch (error) {
      if (!(error instanceof ConnectionError)) {
        throw error;
      }
    }
  }
}
