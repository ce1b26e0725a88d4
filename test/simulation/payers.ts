import { expectPromptListing } from './final-checks.ts';
import type { NostrKey } from './recipients.ts';
import { Actor } from './scheduler.ts';
import { ConnectionError } from './simulated-network.ts';
import type { Invoice } from './truth.ts';
import type { World } from './world.ts';
import { createZapRequest } from './zap-requests.ts';

/** Starts a payer, who requests one invoice and pays it. */
export function startPayer(world: World, number: number, recipient: NostrKey): void {
  const { random, zapReferee, relays, recipients } = world;
  const payment = { recipient, amountSat: random.integer(1, 2_000) };
  const isZap = zapReferee !== null && random.chance(0.15);
  const zapRequest = isZap
    ? createZapRequest(random, random.pick(recipients), relays, payment)
    : null;
  // Some wallets use a zap request again.
  const names = isZap && random.chance(0.2) ? ['payer', 'same-payer'] : ['payer'];
  for (const name of names) {
    const actor = new Actor(`${name}-${number}`);
    world.scheduler.start(actor, async () => {
      const invoice = await requestInvoice(world, actor, {
        ...payment,
        payer: actor.name,
        zapRequest,
      });
      if (invoice !== null) {
        await pay(world, actor, invoice);
        await checkVerify(world, invoice);
      }
    });
  }
}

async function requestInvoice(
  world: World,
  actor: Actor,
  details: Pick<Invoice, 'payer' | 'recipient' | 'amountSat' | 'zapRequest'>,
): Promise<Invoice | null> {
  const { scheduler, random, proxy, truth, referee, history, zapReferee } = world;
  const { recipient, amountSat, zapRequest } = details;
  const address = `198.51.${random.integer(0, 100)}.${random.integer(1, 255)}`;
  const nostr = zapRequest === null ? '' : `&nostr=${encodeURIComponent(zapRequest.json)}`;
  const path = `/.well-known/lnurlp/${recipient.npub}?amount=${amountSat * 1000}${nostr}`;
  if (zapRequest !== null) {
    history.add(
      actor,
      () => `uses the zap request ${zapRequest.id} (${zapRequest.flaw ?? 'valid'})`,
    );
  }
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const requestedAtMs = scheduler.nowMs;
    try {
      const { status, body } = await proxy.request({ path }, address);
      if (status === 200 && body.pr !== undefined) {
        const found = truth.findInvoice(body.pr);
        if (found === null) {
          referee.report('invoices exist at a mint', body.pr);
          return null;
        }
        history.add(actor, () => `gets an invoice of ${amountSat} sat at ${found.mint.host}`);
        const invoice: Invoice = {
          ...details,
          ...found,
          request: body.pr,
          verifyPath: new URL(body.verify).pathname,
          requestedAtMs,
          receivedAtMs: scheduler.nowMs,
          payment: null,
        };
        truth.invoices.push(invoice);
        truth.addSecret(invoice.verifyPath);
        referee.checkInvoice(invoice);
        zapReferee?.checkInvoice(invoice);
        return invoice;
      }
      if (zapRequest !== null && body?.reason?.startsWith('The zap request')) {
        zapReferee?.checkRejection(zapRequest, body.reason);
        return null;
      }
      world.failedInvoices += 1;
      referee.checkRefusal(recipient.pubkey, requestedAtMs, `${actor.name}: ${status}`);
    } catch (error) {
      if (!(error instanceof ConnectionError)) {
        throw error;
      }
      referee.checkRefusal(recipient.pubkey, requestedAtMs, `${actor.name}: ${error.message}`);
    }
    await scheduler.sleep(random.exponential(2_000));
  }
  return null;
}

async function pay(world: World, actor: Actor, invoice: Invoice): Promise<void> {
  const delayMs = choosePaymentDelayMs(world, invoice);
  if (delayMs === null) {
    invoice.mint.forget(invoice.quoteId);
    return;
  }
  await world.scheduler.sleep(delayMs);
  if (!payNow(world, invoice)) {
    world.history.add(actor, () => 'cannot pay');
  }
}

/** Returns false if the invoice is paid already, or its mint is gone. */
export function payNow(world: World, invoice: Invoice): boolean {
  const { scheduler, truth } = world;
  const isPaid = invoice.mint.pay(invoice.request) !== null;
  if (isPaid) {
    expectPromptListing(world, truth.addPayment(invoice, scheduler.nowMs));
  }
  return isPaid;
}

/** Null: never. */
function choosePaymentDelayMs({ random, scheduler }: World, invoice: Invoice): number | null {
  const { expirySeconds } = invoice.mint.switches;
  const untilExpiryMs = invoice.requestedAtMs + expirySeconds * 1_000 - scheduler.nowMs;
  const choice = random.next();
  if (choice < 0.1) {
    return null;
  }
  if (choice < 0.3) {
    // So fast that the service may not watch the invoice yet.
    return random.exponential(100);
  }
  if (choice < 0.4) {
    return untilExpiryMs + random.between(-3_000, 3_000);
  }
  if (choice < 0.45) {
    // The Lightning node of the mint accepts it late.
    return untilExpiryMs + random.exponential(300_000);
  }
  return random.exponential(choice < 0.95 ? 10_000 : 300_000);
}

async function checkVerify(world: World, invoice: Invoice): Promise<void> {
  const { scheduler, random, proxy, referee } = world;
  if (!random.chance(0.2)) {
    return;
  }
  for (let round = 0; round < 5; round += 1) {
    await scheduler.sleep(3_000);
    const sentAtMs = scheduler.nowMs;
    try {
      const { status, body } = await proxy.request({ path: invoice.verifyPath }, '198.51.100.1');
      if (status === 200) {
        referee.checkVerify(invoice, body.settled, sentAtMs);
      }
    } catch (error) {
      if (!(error instanceof ConnectionError)) {
        throw error;
      }
    }
  }
}
