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
import { openLog } from '../src/log.ts';
import { type Service, startService } from '../src/service.ts';
import { DemoWallet } from './demo-wallet.ts';
import { Narrator, shorten } from './narrator.ts';
import { openPayDesk, type PayDesk } from './pay-desk.ts';
import { discover, requestInvoice, verifySettled } from './payer.ts';
import { TestMint } from './test-mint.ts';

export interface DemoOptions {
  /** Leave everything running after the payments, until `end`. */
  keep: boolean;
  /** The port of the service; 0 is any free one. With `keep`, the pay desk gets the port after it. */
  port: string;
  /** Ends what is kept running, or interrupts the payments. */
  end: AbortSignal;
}

/** The settings of a service that has everything in `docs/api.md`: it sells names and signs zap receipts. */
export function demoSettings(mintUrl: string): Record<string, string> {
  return {
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    USERNAME_PRICE_SAT: '10',
    ZAP_SECRET_KEY: bytesToHex(generateSecretKey()),
  };
}

/**
 * Pays one address twice, unlocked and locked, and collects both as ecash: a payer, a recipient's wallet and a
 * mint around the real service. It ignores the settings in the environment, so it cannot touch a real database.
 *
 * @throws OperatorError naming the step that failed; what was started ends with the process
 */
export async function runDemo({ keep, port, end }: DemoOptions): Promise<void> {
  const story = new Narrator(end);
  story.line('Two payments to one Lightning address, each from invoice to ecash.');

  story.chapter('The parties');
  const mint = await story.step({
    name: 'Mint',
    request: 'a test mint that blinds and signs',
    run: () => TestMint.start(),
    describe: ({ url }) => url,
  });
  const service = await story.step({
    name: 'Service',
    request: 'nutpost on a new SQLite database',
    run: () => startDemoService(mint, port),
    describe: ({ publicOrigin }) => publicOrigin,
  });
  const { publicOrigin } = service;
  const payDesk = keep ? await openDemoPayDesk(mint, Number(port)) : null;
  const wallet = new DemoWallet(publicOrigin, mint.url);
  await story.step({
    name: 'Wallet',
    request: 'quote socket of a new Nostr key',
    run: () => wallet.subscribe(),
    describe: () => shorten(wallet.npub),
  });
  const discoveryUrl = `${publicOrigin}/.well-known/lnurlp/${wallet.npub}`;
  const parties = { mint, wallet, discoveryUrl };

  story.chapter(`First payment: 21 sat to ${shorten(wallet.npub)}@${new URL(publicOrigin).host}`);
  await payAndCollect(story, parties, { amountSat: 21, locked: false });

  story.chapter('Second payment: 100 sat, locked to the key of the recipient');
  await story.step({
    name: 'Lock',
    request: 'PATCH /api/v2/user/lock',
    run: () => wallet.lockQuotes(),
    describe: () => 'future quotes are locked',
  });
  await payAndCollect(story, parties, { amountSat: 100, locked: true });

  story.chapter('The end');
  await story.step({
    name: 'Holdings',
    request: 'POST /v1/checkstate, to the mint',
    run: () => wallet.unspentProofs(),
    describe: (proofs) => `${sumProofs(proofs)} sat in ${proofs.length} unspent proofs`,
  });

  const stop = async () => {
    wallet.close();
    payDesk?.close();
    await service.stop();
    await mint.close();
  };
  if (payDesk !== null) {
    await keepRunning(story, parties, payDesk.url, end);
    await stop();
  } else {
    await story.step({
      name: 'Stop',
      request: 'the service and the mint',
      run: stop,
      describe: () => 'done',
    });
  }
}

interface Parties {
  mint: TestMint;
  wallet: DemoWallet;
  /** Where payers look up the wallet's Lightning address (LUD-16). */
  discoveryUrl: string;
}

function startDemoService(mint: TestMint, port: string): Promise<Service> {
  // The folder is removed when the process exits.
  const dataDir = mkdtempSync(path.join(tmpdir(), 'nutpost-demo-'));
  process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));
  const config = readConfig({
    ...demoSettings(mint.url),
    PORT: port,
    DATA_DIR: dataDir,
    STOP_DELAY_SECONDS: '0',
    LOG_LEVEL: 'error',
  });
  return startService(config, { log: openLog(config.logLevel, process.stderr) });
}

async function openDemoPayDesk(mint: TestMint, servicePort: number): Promise<PayDesk> {
  try {
    return await openPayDesk(mint, servicePort === 0 ? 0 : servicePort + 1);
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new OperatorError(`--port: the pay desk needs the port after it: ${reason}`);
  }
}

/** One payment, from discovery to the proofs in the wallet. */
async function payAndCollect(
  story: Narrator,
  { mint, wallet, discoveryUrl }: Parties,
  { amountSat, locked }: { amountSat: number; locked: boolean },
): Promise<void> {
  const amountMsat = amountSat * 1000;
  const { callback } = await story.step({
    name: 'Discovery',
    request: `GET /.well-known/lnurlp/${wallet.npub.slice(0, 9)}…`,
    run: () => discover(discoveryUrl),
    describe: ({ minSendable, maxSendable }) =>
      `${satOf(minSendable)} to ${satOf(maxSendable)} sat`,
  });
  const invoice = await story.step({
    name: 'Invoice',
    request: `GET the callback, amount=${amountMsat}`,
    run: () => requestInvoice(callback, amountMsat),
    describe: ({ pr }) => `${shorten(pr)}, ${amountSat} sat`,
  });
  await story.step({
    name: 'Payment',
    request: 'the payer pays the invoice',
    run: () => mint.pay(invoice.pr),
    describe: () => 'the mint has the money',
  });
  const quoteId = await story.step({
    name: 'Update',
    request: 'wait on the socket',
    run: () => wallet.nextUpdate(),
    describe: (id) => `quote ${shorten(id)}`,
  });
  const quote = await story.step({
    name: 'List',
    request: 'GET /api/v2/wallet/quotes',
    run: async () => {
      const listed = await wallet.listedQuote(quoteId);
      const expected = { request: invoice.pr, amount: amountSat, state: 'PAID', locked };
      assert.partialDeepStrictEqual(listed, expected);
      return listed;
    },
    describe: ({ amount, state }) => `${amount} sat, ${state}, ${locked ? 'locked' : 'unlocked'}`,
  });
  await story.step({
    name: 'Verify',
    request: 'GET /lnurl/verify/…',
    run: () => verifySettled(invoice.verify),
    describe: () => 'settled',
  });
  await story.step({
    name: 'Proofs',
    request: `POST /v1/mint/bolt11${locked ? ', signed' : ''}`,
    run: () => wallet.collect(quote),
    describe: describeProofs,
  });
  await story.step({
    name: 'Update',
    request: 'wait on the socket, then list',
    run: () => wallet.listedAsIssued(quoteId),
    describe: ({ amount, state }) => `${amount} sat, ${state}`,
  });
}

/** Explains how to use what is running, and waits for the end. */
async function keepRunning(
  story: Narrator,
  { mint, discoveryUrl }: Parties,
  payDeskUrl: string,
  end: AbortSignal,
): Promise<void> {
  story.chapter('Everything keeps running. Any npub has an address here; this is the one above:');
  story.line(`
  Discovery    curl '${discoveryUrl}'
  Invoice      curl '${discoveryUrl}?amount=21000'
  Pay it       curl -d '<invoice>' ${payDeskUrl}
  Is it paid?  curl '<verify, as it came with the invoice>'
  The mint     ${mint.url}

Ctrl-C ends it.`);
  if (!end.aborted) {
    await once(end, 'abort');
  }
}

/** For example `3 proofs: 16 + 4 + 1 sat`. */
function describeProofs(proofs: readonly Proof[]): string {
  const amounts = proofs.map(({ amount }) => amount.toNumber()).sort((a, b) => b - a);
  return `${proofs.length} proofs: ${amounts.join(' + ')} sat`;
}

function satOf(msat: number): string {
  return (msat / 1000).toLocaleString('en');
}
