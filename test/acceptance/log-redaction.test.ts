import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { Wallet } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { nip19 } from 'nostr-tools';
import { beforeAll, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { startMintWithScriptedQuotes } from '../helpers/mints/fake-mint-with-scripted-quotes.ts';
import { sendRawBytes, sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import {
  type RecipientClient,
  requestJson,
  TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import { requestUsername } from '../helpers/recipients/username-requests.ts';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import {
  buildZapQuery,
  createZapRequest,
  TEST_ZAP_SECRET_KEY,
} from '../helpers/relays/zap-requests.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { runNutpostCommand } from '../helpers/service/nutpost-process.ts';
import {
  assignNewTestMint,
  setMint,
  TEST_JWT_SECRET,
  TEST_TREASURY_SECRET,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const logCapture = new LogCapture('trace');
const NOTIFY_SECRET_KEY = '3b'.repeat(32);

const secrets = new Map<string, string>([
  ['JWT_SECRET', TEST_JWT_SECRET],
  ['TREASURY_SECRET', TEST_TREASURY_SECRET],
  ['ZAP_SECRET_KEY', TEST_ZAP_SECRET_KEY],
  ['NOTIFY_SECRET_KEY', NOTIFY_SECRET_KEY],
]);

const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: '21', ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, NOTIFY_SECRET_KEY },
  overrides: { log: logCapture.log },
});
let wallet: RecipientClient;

beforeAll(async () => {
  wallet = environment.newWallet();
  secrets.set('a secret key', Buffer.from(wallet.secretKey).toString('hex'));
  secrets.set('a secret key as nsec', nip19.nsecEncode(wallet.secretKey));
});

it('never logs quote ids, tokens, ecash, signatures, keys or payer texts, even at level trace', async () => {
  const mints = [environment.mint, await receiveAndMintPayment(), ...(await useFailingMints())];
  await sendCredentials();
  await buyUsernames();
  await sendPayerTexts();
  await sendInvalidRequests();
  await breakDatabase();

  for (const [index, mint] of mints.entries()) {
    for (const id of mint.quotes.keys()) {
      secrets.set(`quote ${id} of mint ${index}`, id);
    }
  }
  const log = logCapture.lines.join('');
  const leaked = [...secrets].filter(([, secret]) => log.includes(secret)).map(([name]) => name);
  expect(leaked).toEqual([]);
  expect(secrets.size).toBeGreaterThan(20);
  for (const text of ['"status":200', '"status":401', '"status":500', 'mint did not create']) {
    expect(log).toContain(text);
  }
});

it('prints a fatal error without secrets', async () => {
  const secret = randomBytes(32).toString('hex');
  // The printed stack quotes this code, so the code reads the secret from the environment.
  const failingModule = `
    const { SECRET } = process.env;
    process.on('newListener', (event) => {
      if (event === 'uncaughtException') {
        const cause = Object.assign(new Error('{"quoteId":"' + SECRET + '"}'), { detail: SECRET });
        throw new Error('Bearer ' + SECRET, { cause });
      }
    });`;
  const { code, stdout, stderr } = await runNutpostCommand(['serve'], {
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(failingModule)}`,
    SECRET: secret,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('Error: Bearer [redacted]');
  expect(stderr).toContain('caused by:\nError: {"quoteId":"[redacted]"}');
  expect(stdout + stderr).not.toContain(secret);
});

async function receiveAndMintPayment(): Promise<TestMint> {
  const mint = await assignNewTestMint(wallet);
  const socket = await wallet.openSocket();
  const { pr, verify } = await environment.requestInvoice(wallet, 21);
  addVerifyToken(verify);
  await requestJson(verify, '');
  mint.pay(pr);
  const { payload } = await socket.nextMessage();
  await wallet.listPaidQuotes();
  await requestJson(verify, '');

  const cashu = new Wallet(mint.url, { unit: 'sat' });
  await cashu.loadMint();
  await cashu.mintProofsBolt11(21, payload.quoteId);
  await socket.nextMessage();
  await socket.close();
  return mint;
}

async function useFailingMints(): Promise<TestMint[]> {
  const failingMint = await assignNewTestMint(wallet);
  failingMint.failNext('POST /v1/mint/quote/bolt11', 2);
  await expect(environment.requestInvoice(wallet, 1)).rejects.toThrow();

  const wrongAmountMint = await assignNewTestMint(wallet, { invoiceAmountOverrideSat: 2 });
  await expect(environment.requestInvoice(wallet, 1)).rejects.toThrow();

  const disconnectingMint = await assignNewTestMint(wallet);
  addVerifyToken((await environment.requestInvoice(wallet, 1)).verify);
  disconnectingMint.dropSockets();
  return [failingMint, wrongAmountMint, disconnectingMint];
}

async function sendCredentials(): Promise<void> {
  const path = '/api/v2/wallet/quotes';
  const authorization = addSecret('a NIP-98 authorization', wallet.signRequest(path));
  await requestJson(environment.origin, path, { headers: { authorization } });
  const { body } = await wallet.get('/api/v2/auth/nip98');
  const token = addSecret('a JWT', body.data.token);
  for (const value of [token, `${token}x`]) {
    addSecret('the signature of a JWT', value.split('.')[2] ?? '');
    await requestJson(environment.origin, path, { headers: { authorization: `Bearer ${value}` } });
  }
  const headers = {
    authorization,
    'x-cashu': addSecret('a Cashu token', `cashuB${'c'.repeat(40)}`),
  };
  await requestJson(environment.origin, '/api/v2/user/username', { method: 'POST', headers });

  const socket = new TestQuoteSocket(environment.origin);
  await socket.nextMessage();
  socket.send(
    'challenge-response',
    addSecret('an authorization for another URL', wallet.signRequest('/elsewhere')),
  );
  await socket.waitForClose();
}

async function buyUsernames(): Promise<void> {
  const payer = await EcashPayer.open(environment.mint);
  const mintToken = async () => {
    const proofs = await payer.mintProofs(21);
    for (const { secret, C } of proofs) {
      addSecret('the secret of a proof', secret);
      addSecret('the signature of a proof', C);
    }
    return addSecret('a payment token', payer.encodeToken(proofs));
  };
  const goodToken = await mintToken();
  expect((await requestUsername(wallet, 'bought', goodToken)).status).toBe(201);
  expect((await requestUsername(wallet, 'other', goodToken)).status).toBe(402);

  environment.mint.failNext('POST /v1/swap', 2);
  expect((await requestUsername(wallet, 'heldup', await mintToken())).status).toBe(503);
  await logCapture.waitForText('username purchase is still pending');

  const { db } = environment.database;
  await sql`alter table username_purchases add constraint unlucky check (name <> 'unlucky')`.execute(
    db,
  );
  expect((await requestUsername(wallet, 'unlucky', await mintToken())).status).toBe(500);
}

async function sendPayerTexts(): Promise<void> {
  const relay = await startFakeRelay();
  const mint = await assignNewTestMint(wallet);
  const zapInvoice = await requestInvoiceWithTexts(relay.url);
  addVerifyToken(zapInvoice.verify);
  mint.pay(zapInvoice.pr);
  await relay.waitForEvents(1);

  // The service repeats a rejected request without the description. The mint then echoes the earlier one.
  let echoedText = '';
  const echoingMint = await startMintWithScriptedQuotes(({ description = echoedText }) => {
    echoedText = description;
    return { detail: `No: ${echoedText}`, code: 0 };
  }, 400);
  expect((await setMint(wallet, echoingMint.url)).status).toBe(200);
  expect(await requestInvoiceWithTexts(relay.url)).toHaveProperty('reason');
  await assignNewTestMint(wallet);
}

async function requestInvoiceWithTexts(relayUrl: string, amountSat = 21) {
  const amountMsat = amountSat * 1000;
  const zap = createZapRequest({
    recipient: wallet.pubkey,
    amountMsat,
    relays: [relayUrl],
    comment: addSecret('the content of a zap request', uniqueText('to all')),
  });
  addSecret('the signature of a zap request', zap.event.sig);
  const comment = addSecret('a comment', uniqueText('to you'));
  const query = `${buildZapQuery(zap.text, amountMsat)}&comment=${encodeURIComponent(comment)}`;
  return (await requestJson(environment.origin, `/.well-known/lnurlp/${wallet.npub}?${query}`))
    .body;
}

/** Returns several short words, because the service never logs long words from a mint. */
function uniqueText(start: string): string {
  return `${start}: ${randomUUIDv7().replaceAll('-', ' ')}`;
}

async function sendInvalidRequests(): Promise<void> {
  const { verify } = await environment.requestInvoice(wallet, 3);
  const token = addVerifyToken(verify);
  for (const path of [
    `/lnurl/verify/${token}/more`,
    `/lnurl/verify/${token}%zz`,
    `/elsewhere/${token}`,
    `/.well-known/nostr.json?name=${token}`,
    `/api/v2/wallet/quotes?since=${token}`,
  ]) {
    await sendRawRequest(environment.origin, path);
    await sendRawRequest(environment.origin, path, {
      headers: { connection: 'upgrade', upgrade: 'h2c' },
    });
  }
  await sendRawBytes(
    environment.origin,
    `GET /lnurl/verify/${token} HTTP/1.1\r\n: no header name\r\n\r\n`,
  );
  const body = addSecret('a body', `{"mint_url":"https://${token}@mint.example`);
  const headers = { authorization: wallet.signRequest('/api/v2/user/mint', 'PATCH') };
  await sendRawRequest(environment.origin, '/api/v2/user/mint', { method: 'PATCH', headers, body });
}

/** Causes database errors, because their messages include the affected rows. */
async function breakDatabase(): Promise<void> {
  const { db } = environment.database;
  const mint = await assignNewTestMint(wallet);
  // A quote of 13 sat cannot be stored. A quote of 14 sat can be stored, but not become paid.
  await sql`alter table quotes add constraint unlucky
    check (amount_sat <> 13 and (amount_sat <> 14 or state = 'UNPAID'))`.execute(db);
  await expect(environment.requestInvoice(wallet, 13)).rejects.toThrow('could not complete');
  expect(await requestInvoiceWithTexts('wss://a.example', 13)).toHaveProperty('reason');
  const { pr, verify } = await environment.requestInvoice(wallet, 14);
  const token = addVerifyToken(verify);
  mint.pay(pr);
  await logCapture.waitForText('quote_rows_inconsistent');
  for (const id of mint.quotes.keys()) {
    addSecret(`a quote id of amount ${mint.quotes.get(id)?.amountSat}`, id);
  }

  await sql`alter table quotes rename to quotes_lost`.execute(db);
  await requestJson(environment.origin, `/lnurl/verify/${token}`);
  await wallet.get('/api/v2/wallet/quotes');
  await logCapture.waitForText('watcher_database_failed');
  await sql`alter table quotes_lost rename to quotes`.execute(db);
}

function addVerifyToken(verifyUrl: string): string {
  return addSecret('a verify token', verifyUrl.slice(-64));
}

function addSecret(name: string, secret: string): string {
  secrets.set(`${name} (${secrets.size})`, secret.replace(/^(Nostr|Bearer) /, ''));
  return secret;
}
