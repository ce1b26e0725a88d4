import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Proof, sumProofs } from '@cashu/cashu-ts';
import { generateSecretKey } from 'nostr-tools';
import { bytesToHex } from 'nostr-tools/utils';
import { readConfig } from '../config.ts';
import { OperatorError } from '../domain/errors.ts';
import { openLog } from '../log.ts';
import { type Service, startService } from '../service.ts';
import { DemoWallet } from './demo-wallet.ts';
import { Narrator, shorten } from './narrator.ts';
import { openPayDesk, type PayDesk } from './pay-desk.ts';
import { discover, requestInvoice, verifySettled } from './payer.ts';
import { TestMint } from './test-mint.ts';

/** A fraction of a second, and many times that on a slow or busy machine. */
const STEP_DEADLINE_MS = 30_000;

/** The first start of a database takes 2 s, and 20 s on a busy machine. */
const FIRST_START_DEADLINE_MS = 180_000;

export interface DemoOptions {
  /** Leave everything running after the story, until `end`. */
  keep: boolean;
  /**
   * Of the service, as the setting `PORT`; 0 is any free one. What is kept running has its pay desk on the
   * port after it, or on any.
   */
  port: string;
  /** Ends what is kept running, or breaks off the story. */
  end: AbortSignal;
}

/**
 * The settings of a service that has everything that `docs/api.md` tells of: it sells names and signs zap
 * receipts, with a new key each time.
 *
 * @param mintUrl of a test mint
 */
export function demoSettings(mintUrl: string): Record<string, string> {
  return {
    DEFAULT_MINT_URL: mintUrl,
    ALLOW_PRIVATE_NETWORKS: 'true',
    USERNAME_PRICE_SAT: '10',
    ZAP_SECRET_KEY: bytesToHex(generateSecretKey()),
  };
}

/**
 * Pays one address twice, unlocked and locked, and collects both as ecash: a payer, a recipient's
 * wallet and a mint around the real service, on its real port and with an embedded database.
 *
 * It reads nothing of the environment's settings, so it cannot touch a real database.
 *
 * @throws OperatorError naming the step that failed; what was started ends with the process
 */
export async function runDemo({ keep, port, end }: DemoOptions): Promise<void> {
  const story = new Narrator({
    output: process.stdout,
    stepDeadlineMs: STEP_DEADLINE_MS,
    interruption: end,
  });
  story.line('Two payments to one Lightning address, each from invoice to ecash.');

  story.chapter('The parties');
  const mint = await startMint(story);
  const service = await startDemoService(story, mint, port);
  const payDesk = keep ? await openDemoPayDesk(mint, Number(port)) : null;
  const wallet = new DemoWallet(service.publicOrigin);
  await story.step({
    name: 'Wallet',
    asks: 'quote socket of a new Nostr key',
    does: () => wallet.listen(),
    tells: () => shorten(wallet.npub),
  });
  const { publicOrigin } = service;
  const discoveryUrl = `${publicOrigin}/.well-known/lnurlp/${wallet.npub}`;
  const parties: Parties = { mint, wallet, discoveryUrl };
  const address = `${shorten(wallet.npub)}@${new URL(publicOrigin).host}`;

  story.chapter(`First payment: 21 sat to ${address}`);
  await tellPayment(story, parties, { amountSat: 21, locked: false });

  story.chapter('Second payment: 100 sat, locked to the key of the recipient');
  await story.step({
    name: 'Lock',
    asks: 'PATCH /api/v2/user/lock',
    does: () => wallet.lockQuotes(),
    tells: () => 'future quotes are locked',
  });
  await tellPayment(story, parties, { amountSat: 100, locked: true });

  story.chapter('The end');
  await story.step({
    name: 'Holdings',
    asks: 'POST /v1/checkstate, to the mint',
    does: () => wallet.unspentProofs(),
    tells: (proofs) => `${sumProofs(proofs)} sat in ${proofs.length} unspent proofs`,
  });

  const stop = async () => {
    wallet.close();
    await service.stop();
    await mint.close();
  };
  if (payDesk !== null) {
    await keepRunning(story, parties, payDesk.url, end);
    payDesk.close();
    await stop();
  } else {
    await story.step({
      name: 'Stop',
      asks: 'the service and the mint',
      does: stop,
      tells: () => `done, ${story.elapsed} in all`,
    });
  }
}

interface Parties {
  mint: TestMint;
  wallet: DemoWallet;
  /** What the wallet's Lightning address stands for (LUD-16). */
  discoveryUrl: string;
}

function startMint(story: Narrator): Promise<TestMint> {
  return story.step({
    name: 'Mint',
    asks: 'a test mint that blinds and signs',
    does: () => TestMint.start(),
    tells: ({ url }) => url,
  });
}

function startDemoService(story: Narrator, mint: TestMint, port: string): Promise<Service> {
  return story.step({
    name: 'Service',
    asks: 'nutpost on a new embedded database',
    deadlineMs: FIRST_START_DEADLINE_MS,
    does: () => {
      const config = readConfig({
        ...demoSettings(mint.url),
        PORT: port,
        DATA_DIR: temporaryFolder(),
        STOP_DELAY_SECONDS: '0',
        LOG_LEVEL: 'error',
      });
      return startService(config, { log: openLog(config.logLevel, process.stderr) });
    },
    tells: ({ publicOrigin }) => publicOrigin,
  });
}

async function openDemoPayDesk(mint: TestMint, servicePort: number): Promise<PayDesk> {
  try {
    return await openPayDesk(mint, servicePort === 0 ? 0 : servicePort + 1);
  } catch (error) {
    const reason = error instanceof Error ? error.message : error;
    throw new OperatorError(`--port: the pay desk needs the port after it: ${reason}`);
  }
}

/** One payment, from the question who can be paid to the proofs in the wallet. */
async function tellPayment(
  story: Narrator,
  { mint, wallet, discoveryUrl }: Parties,
  { amountSat, locked }: { amountSat: number; locked: boolean },
): Promise<void> {
  const amountMsat = amountSat * 1000;
  const { callback } = await story.step({
    name: 'Discovery',
    asks: `GET /.well-known/lnurlp/${wallet.npub.slice(0, 9)}…`,
    does: () => discover(discoveryUrl),
    tells: ({ minSendable, maxSendable }) => `${satOf(minSendable)} to ${satOf(maxSendable)} sat`,
  });
  const invoice = await story.step({
    name: 'Invoice',
    asks: `GET the callback, amount=${amountMsat}`,
    does: () => requestInvoice(callback, amountMsat),
    tells: ({ pr }) => `${shorten(pr)}, ${amountSat} sat`,
  });
  await story.step({
    name: 'Payment',
    asks: 'somebody pays the invoice',
    does: () => mint.pay(invoice.pr),
    tells: () => 'the mint has the money',
  });
  const quoteId = await story.step({
    name: 'Update',
    asks: 'wait on the socket',
    does: () => wallet.nextUpdate(),
    tells: (id) => `quote ${shorten(id)}`,
  });
  const quote = await story.step({
    name: 'List',
    asks: 'GET /api/v2/wallet/quotes',
    does: async () => {
      const listed = await wallet.listedQuote(quoteId);
      expectFields(listed, { request: invoice.pr, amount: amountSat, state: 'PAID', locked });
      return listed;
    },
    tells: ({ amount, state }) => `${amount} sat, ${state}, ${locked ? 'locked' : 'unlocked'}`,
  });
  await story.step({
    name: 'Verify',
    asks: 'GET /lnurl/verify/…',
    does: () => verifySettled(invoice.verify),
    tells: () => 'settled',
  });
  await story.step({
    name: 'Proofs',
    asks: `POST /v1/mint/bolt11${locked ? ', signed' : ''}`,
    does: () => wallet.collect(quote),
    tells: describeProofs,
  });
  await story.step({
    name: 'Update',
    asks: 'wait on the socket, then list',
    does: () => wallet.listedAsIssued(quoteId),
    tells: ({ amount, state }) => `${amount} sat, ${state}`,
  });
}

/** Tells how to play with what is running, and lets it run. */
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

/** A folder that vanishes with the process, however that ends short of a kill. */
function temporaryFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-demo-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function expectFields<T extends object>(actual: T, expected: Partial<T>): void {
  for (const [name, value] of Object.entries(expected)) {
    const came = actual[name as keyof T];
    if (came !== value) {
      throw new Error(`${name} is ${came}, not ${value}`);
    }
  }
}

/** Such as `3 proofs: 16 + 4 + 1 sat`. */
function describeProofs(proofs: readonly Proof[]): string {
  const amounts = proofs.map(({ amount }) => amount.toNumber()).sort((a, b) => b - a);
  return `${proofs.length} proofs: ${amounts.join(' + ')} sat`;
}

function satOf(msat: number): string {
  return (msat / 1000).toLocaleString('en');
}
