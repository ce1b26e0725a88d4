import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Proof, sumProofs } from '@cashu/cashu-ts';
import { generateSecretKey } from 'nostr-tools';
import { bytesToHex } from 'nostr-tools/utils';
import { readConfig } from '../src/config.ts';
import { OperatorError } from '../src/errors.ts';
import { createLogger } from '../src/log.ts';
import { type Service, startService } from '../src/service.ts';
import { DemoWallet } from './demo-wallet.ts';
import { assertSettled, fetchPayRequest, requestInvoice } from './payer.ts';
import { type PaymentServer, startPaymentServer } from './payment-server.ts';
import { StepPrinter, shorten } from './step-printer.ts';
import { TestMint } from './test-mint.ts';

export interface DemoOptions {
  /** Keep everything running after the payments, until `stopSignal` aborts. */
  shouldKeepRunning: boolean;
  /** Port of the service; 0: any free port. If everything keeps running, the payment server uses the next port. */
  port: string;
  /** Stops the demo, also in the middle of a payment. */
  stopSignal: AbortSignal;
}

/** Returns settings that turn on every feature in `docs/api.md`: username sales and zap receipts. */
export function demoEnv(mintUrl: string): Record<string, string> {
  return {
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    USERNAME_PRICE_SAT: '10',
    ZAP_SECRET_KEY: bytesToHex(generateSecretKey()),
  };
}

/**
 * Pays one address twice, once with an unlocked and once with a locked quote, and redeems both payments as
 * ecash. The service is real; the payer, the wallet and the mint are simulated. Ignores the settings in the
 * environment, so it cannot touch a real database.
 *
 * @throws OperatorError naming the step that failed. The caller must then exit the process, which stops
 *   everything that was started.
 */
export async function runDemo({ shouldKeepRunning, port, stopSignal }: DemoOptions): Promise<void> {
  const printer = new StepPrinter(stopSignal);
  printer.line('Pays one Lightning address twice, each time from invoice to ecash.');

  printer.heading('Setup');
  const mint = await printer.step({
    name: 'Mint',
    request: 'a test mint with real signatures',
    run: () => TestMint.start(),
    describeResult: ({ url }) => url,
  });
  const service = await printer.step({
    name: 'Service',
    request: 'nutpost on a new SQLite database',
    run: () => startDemoService(mint, port),
    describeResult: ({ publicOrigin }) => publicOrigin,
  });
  const { publicOrigin } = service;
  const paymentServer = shouldKeepRunning ? await startDemoPaymentServer(mint, Number(port)) : null;
  const wallet = new DemoWallet(publicOrigin, mint.url);
  await printer.step({
    name: 'Wallet',
    request: 'quote socket for a new Nostr key',
    run: () => wallet.subscribe(),
    describeResult: () => shorten(wallet.npub),
  });
  const payRequestUrl = `${publicOrigin}/.well-known/lnurlp/${wallet.npub}`;
  const context = { mint, wallet, payRequestUrl };

  printer.heading(`First payment: 21 sat to ${shorten(wallet.npub)}@${new URL(publicOrigin).host}`);
  await payAndRedeem(printer, context, { amountSat: 21, locked: false });

  printer.heading("Second payment: 100 sat, locked to the recipient's key");
  await printer.step({
    name: 'Lock',
    request: 'PATCH /api/v2/user/lock',
    run: () => wallet.lockQuotes(),
    describeResult: () => 'new quotes are locked',
  });
  await payAndRedeem(printer, context, { amountSat: 100, locked: true });

  printer.heading('Result');
  await printer.step({
    name: 'Balance',
    request: 'POST /v1/checkstate to the mint',
    run: () => wallet.getUnspentProofs(),
    describeResult: (proofs) => `${sumProofs(proofs)} sat in ${proofs.length} unspent proofs`,
  });

  const stop = async () => {
    wallet.close();
    paymentServer?.close();
    await service.stop();
    await mint.close();
  };
  if (paymentServer !== null) {
    await waitForStop(printer, context, paymentServer.url, stopSignal);
    await stop();
  } else {
    await printer.step({
      name: 'Stop',
      request: 'the service and the mint',
      run: stop,
      describeResult: () => 'done',
    });
  }
}

interface DemoContext {
  mint: TestMint;
  wallet: DemoWallet;
  /** URL of the wallet's Lightning address (LUD-16). */
  payRequestUrl: string;
}

function startDemoService(mint: TestMint, port: string): Promise<Service> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'nutpost-demo-'));
  process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));
  const config = readConfig({
    ...demoEnv(mint.url),
    PORT: port,
    DATA_DIR: dataDir,
    STOP_DELAY_SECONDS: '0',
    LOG_LEVEL: 'error',
  });
  return startService(config, { log: createLogger(config.logLevel, process.stderr) });
}

async function startDemoPaymentServer(mint: TestMint, servicePort: number): Promise<PaymentServer> {
  try {
    return await startPaymentServer(mint, servicePort === 0 ? 0 : servicePort + 1);
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new OperatorError(
      `The payment server could not listen on the port after --port: ${reason}`,
    );
  }
}

/** Makes one payment, from discovery to the proofs in the wallet. */
async function payAndRedeem(
  printer: StepPrinter,
  { mint, wallet, payRequestUrl }: DemoContext,
  { amountSat, locked }: { amountSat: number; locked: boolean },
): Promise<void> {
  const amountMsat = amountSat * 1000;
  const { callback } = await printer.step({
    name: 'Discovery',
    request: `GET /.well-known/lnurlp/${wallet.npub.slice(0, 9)}…`,
    run: () => fetchPayRequest(payRequestUrl),
    describeResult: ({ minSendable, maxSendable }) =>
      `${formatSat(minSendable)} to ${formatSat(maxSendable)} sat`,
  });
  const invoice = await printer.step({
    name: 'Invoice',
    request: `GET the callback, amount=${amountMsat}`,
    run: () => requestInvoice(callback, amountMsat),
    describeResult: ({ pr }) => `${shorten(pr)}, ${amountSat} sat`,
  });
  await printer.step({
    name: 'Payment',
    request: 'the payer pays the invoice',
    run: () => mint.pay(invoice.pr),
    describeResult: () => 'the mint received it',
  });
  const quoteId = await printer.step({
    name: 'Update',
    request: 'wait for the socket message',
    run: () => wallet.waitForUpdate(),
    describeResult: (id) => `quote ${shorten(id)}`,
  });
  const quote = await printer.step({
    name: 'List',
    request: 'GET /api/v2/wallet/quotes',
    run: async () => {
      const listed = await wallet.getListedQuote(quoteId);
      const expected = { request: invoice.pr, amount: amountSat, state: 'PAID', locked };
      assert.partialDeepStrictEqual(listed, expected);
      return listed;
    },
    describeResult: ({ amount, state }) =>
      `${amount} sat, ${state}, ${locked ? 'locked' : 'unlocked'}`,
  });
  await printer.step({
    name: 'Verify',
    request: 'GET /lnurl/verify/…',
    run: () => assertSettled(invoice.verify),
    describeResult: () => 'settled',
  });
  await printer.step({
    name: 'Proofs',
    request: `POST /v1/mint/bolt11${locked ? ', signed' : ''}`,
    run: () => wallet.mintProofs(quote),
    describeResult: describeProofs,
  });
  await printer.step({
    name: 'Update',
    request: 'wait for the message, then list',
    run: () => wallet.waitUntilIssued(quoteId),
    describeResult: ({ amount, state }) => `${amount} sat, ${state}`,
  });
}

/** Prints how to use the running demo, and waits until it is stopped. */
async function waitForStop(
  printer: StepPrinter,
  { mint, payRequestUrl }: DemoContext,
  paymentServerUrl: string,
  stopSignal: AbortSignal,
): Promise<void> {
  printer.heading('The demo keeps running. Every npub has an address; this is the one above:');
  printer.line(`
  Discovery    curl '${payRequestUrl}'
  Invoice      curl '${payRequestUrl}?amount=21000'
  Pay it       curl -d '<invoice>' ${paymentServerUrl}
  Is it paid?  curl '<the verify URL from the invoice response>'
  Mint         ${mint.url}

Press Ctrl-C to stop.`);
  if (!stopSignal.aborted) {
    await once(stopSignal, 'abort');
  }
}

/** For example `3 proofs: 16 + 4 + 1 sat`. */
function describeProofs(proofs: readonly Proof[]): string {
  const amounts = proofs.map(({ amount }) => amount.toNumber()).sort((a, b) => b - a);
  return `${proofs.length} proofs: ${amounts.join(' + ')} sat`;
}

function formatSat(msat: number): string {
  return (msat / 1000).toLocaleString('en');
}
