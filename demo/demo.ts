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
import { StepRunner, shorten } from './step-runner.ts';
import { TestMint } from './test-mint.ts';

export interface DemoOptions {
  /** Keep the service and the mint running after the payments, until `stopSignal` aborts. */
  shouldKeepRunning: boolean;
  /** Port of the service. `0`: any free port. With `shouldKeepRunning`, the payment server uses the next port. */
  port: number;
  /** Stops the demo, even in the middle of a payment. */
  stopSignal: AbortSignal;
}

/** Returns settings that turn on all optional features in `docs/api.md`: username sales and zap receipts. */
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
 * ecash. The service is real. The payer, the wallet and the mint are simulated. Environment variables have no
 * effect, so the demo cannot open a real database.
 *
 * @throws OperatorError with the name of the failed step. The service and the mint then still run: the caller
 *   must exit the process.
 */
export async function runDemo({ shouldKeepRunning, port, stopSignal }: DemoOptions): Promise<void> {
  const runner = new StepRunner(stopSignal);
  runner.printLine('Pays one Lightning address twice, each time from invoice to ecash.');

  runner.printHeading('Setup');
  const mint = await runner.runStep({
    name: 'Mint',
    request: 'a test mint with real signatures',
    run: () => TestMint.start(),
    describeResult: ({ url }) => url,
  });
  const service = await runner.runStep({
    name: 'Service',
    request: 'nutpost on a new SQLite database',
    run: () => startDemoService(mint, port),
    describeResult: ({ publicOrigin }) => publicOrigin,
  });
  const { publicOrigin } = service;
  const paymentServer = shouldKeepRunning ? await startDemoPaymentServer(mint, port) : null;
  const wallet = new DemoWallet(publicOrigin, mint.url);
  await runner.runStep({
    name: 'Wallet',
    request: 'quote socket for a new Nostr key',
    run: () => wallet.openQuoteSocket(),
    describeResult: () => shorten(wallet.npub),
  });
  const payRequestUrl = `${publicOrigin}/.well-known/lnurlp/${wallet.npub}`;
  const context: DemoContext = { mint, wallet, payRequestUrl };

  runner.printHeading(
    `First payment: 21 sat to ${shorten(wallet.npub)}@${new URL(publicOrigin).host}`,
  );
  await payAndRedeem(runner, context, { amountSat: 21, isLocked: false });

  runner.printHeading("Second payment: 100 sat, locked to the recipient's key");
  await runner.runStep({
    name: 'Lock',
    request: 'PATCH /api/v2/user/lock',
    run: () => wallet.lockQuotes(),
    describeResult: () => 'new quotes are locked',
  });
  await payAndRedeem(runner, context, { amountSat: 100, isLocked: true });

  runner.printHeading('Result');
  await runner.runStep({
    name: 'Balance',
    request: 'POST /v1/checkstate to the mint',
    run: () => wallet.getUnspentProofs(),
    describeResult: (proofs) => `${sumProofs(proofs)} sat in ${proofs.length} unspent proofs`,
  });

  const stopAll = async () => {
    wallet.close();
    paymentServer?.close();
    await service.stop();
    await mint.close();
  };
  if (paymentServer !== null) {
    await showInstructionsUntilStopped(runner, context, paymentServer.url, stopSignal);
    await stopAll();
  } else {
    await runner.runStep({
      name: 'Stop',
      request: 'the service and the mint',
      run: stopAll,
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

function startDemoService(mint: TestMint, port: number): Promise<Service> {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'nutpost-demo-'));
  process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));
  const config = readConfig({
    ...demoEnv(mint.url),
    PORT: String(port),
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

/** Makes one payment: looks up the address, pays an invoice, and mints the proofs in the wallet. */
async function payAndRedeem(
  runner: StepRunner,
  { mint, wallet, payRequestUrl }: DemoContext,
  { amountSat, isLocked }: { amountSat: number; isLocked: boolean },
): Promise<void> {
  const amountMsat = amountSat * 1000;
  const { callback } = await runner.runStep({
    name: 'Discovery',
    request: `GET /.well-known/lnurlp/${wallet.npub.slice(0, 9)}…`,
    run: () => fetchPayRequest(payRequestUrl),
    describeResult: ({ minSendable, maxSendable }) =>
      `${formatSat(minSendable)} to ${formatSat(maxSendable)} sat`,
  });
  const invoice = await runner.runStep({
    name: 'Invoice',
    request: `GET the callback, amount=${amountMsat}`,
    run: () => requestInvoice(callback, amountMsat),
    describeResult: ({ pr }) => `${shorten(pr)}, ${amountSat} sat`,
  });
  await runner.runStep({
    name: 'Payment',
    request: 'the payer pays the invoice',
    run: () => mint.pay(invoice.pr),
    describeResult: () => 'the mint received it',
  });
  const quoteId = await runner.runStep({
    name: 'Update',
    request: 'wait for the socket message',
    run: () => wallet.waitForUpdate(),
    describeResult: (id) => `quote ${shorten(id)}`,
  });
  const quote = await runner.runStep({
    name: 'List',
    request: 'GET /api/v2/wallet/quotes',
    run: async () => {
      const listed = await wallet.getListedQuote(quoteId);
      const expected = { request: invoice.pr, amount: amountSat, state: 'PAID', locked: isLocked };
      assert.partialDeepStrictEqual(listed, expected);
      return listed;
    },
    describeResult: ({ amount, state }) =>
      `${amount} sat, ${state}, ${isLocked ? 'locked' : 'unlocked'}`,
  });
  await runner.runStep({
    name: 'Verify',
    request: 'GET /lnurl/verify/…',
    run: () => assertSettled(invoice.verify),
    describeResult: () => 'settled',
  });
  await runner.runStep({
    name: 'Proofs',
    request: `POST /v1/mint/bolt11${isLocked ? ', signed' : ''}`,
    run: () => wallet.mintProofs(quote),
    describeResult: describeProofs,
  });
  await runner.runStep({
    name: 'Update',
    request: 'wait for the message, then list',
    run: () => wallet.waitUntilIssued(quoteId),
    describeResult: ({ amount, state }) => `${amount} sat, ${state}`,
  });
}

/** Prints how to use the running demo, and waits until `stopSignal` aborts. */
async function showInstructionsUntilStopped(
  runner: StepRunner,
  { mint, wallet, payRequestUrl }: DemoContext,
  paymentServerUrl: string,
  stopSignal: AbortSignal,
): Promise<void> {
  runner.printHeading('The demo keeps running. Every npub has an address; this is the one above:');
  const { origin } = new URL(payRequestUrl);
  runner.printLine(`
  Discovery    curl '${payRequestUrl}'
  Invoice      curl '${payRequestUrl}?amount=21000'
  Pay it       curl -d '<invoice>' ${paymentServerUrl}
  Is it paid?  curl '<the verify URL from the invoice response>'
  Mint         ${mint.url}
  Web page     ${origin}/${wallet.npub}

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
