import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { Wallet } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { nip19 } from 'nostr-tools';
import { beforeAll, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { runNutpostCommand } from '../helpers/nutpost-process.ts';
import { sendRawBytes, sendRawRequest } from '../helpers/raw-http.ts';
import { startScriptedMint } from '../helpers/scripted-mint.ts';
import { startRelay } from '../helpers/start-test-relay.ts';
import {
  assignTestMint,
  setMint,
  TEST_JWT_SECRET,
  TEST_TREASURY_SECRET,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { requestJson, TestQuoteSocket, type TestWallet } from '../helpers/test-wallet.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { buildZapQuery, createZapRequest, TEST_ZAP_SECRET_KEY } from '../helpers/zap-requests.ts';

const captured = new LogCapture('trace');
/** Secrets by description. */
const secrets = new Map<string, string>([
  ['JWT_SECRET', TEST_JWT_SECRET],
  ['TREASURY_SECRET', TEST_TREASURY_SECRET],
  ['ZAP_SECRET_KEY', TEST_ZAP_SECRET_KEY],
]);

const world = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: '21', ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
  overrides: { log: captured.log },
});
let wallet: TestWallet;

beforeAll(async () => {
  wallet = world.newWallet();
  secrets.set('a secret key', Buffer.from(wallet.secretKey).toString('hex'));
  secrets.set('a secret key as nsec', nip19.nsecEncode(wallet.secretKey));
});

it('never logs quote ids, tokens, ecash, signatures, keys or payer texts, even at level trace', async () => {
  const mints = [world.mint, await payAndMint(), ...(await useFailingMints())];
  await signIn();
  await buyUsernames();
  await sendPayerTexts();
  await sendInvalidRequests();
  await breakDatabase();

  for (const [index, mint] of mints.entries()) {
    for (const id of mint.quotes.keys()) {
      secrets.set(`quote ${id} of mint ${index}`, id);
    }
  }
  const log = captured.lines.join('');
  const leaked = [...secrets].filter(([, secret]) => log.includes(secret)).map(([name]) => name);
  expect(leaked).toEqual([]);
  expect(secrets.size).toBeGreaterThan(20);
  for (const text of ['"status":200', '"status":401', '"status":500', 'mint created no quote']) {
    expect(log).toContain(text);
  }
});

it('prints a fatal error without secrets', async () => {
  const secret = randomBytes(32).toString('hex');
  // The stack includes the source of this module, so the secret comes from the environment.
  const failing = `
    const { SECRET } = process.env;
    process.on('newListener', (event) => {
      if (event === 'uncaughtException') {
        const cause = Object.assign(new Error('{"quoteId":"' + SECRET + '"}'), { detail: SECRET });
        throw new Error('Bearer ' + SECRET, { cause });
      }
    });`;
  const { code, stdout, stderr } = await runNutpostCommand(['serve'], {
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(failing)}`,
    SECRET: secret,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('Error: Bearer [redacted]');
  expect(stderr).toContain('caused by:\nError: {"quoteId":"[redacted]"}');
  expect(stdout + stderr).not.toContain(secret);
});

/** Creates, pays, lists, verifies and mints a quote. */
async function payAndMint(): Promise<TestMint> {
  const mint = await assignTestMint(wallet);
  const socket = await wallet.openSocket();
  const { pr, verify } = await world.requestInvoice(wallet, 21);
  addVerifyToken(verify);
  await requestJson(verify, '');
  mint.pay(pr);
  const { payload } = await socket.nextMessage();
  await wallet.listQuotes();
  await requestJson(verify, '');

  const cashu = new Wallet(mint.url, { unit: 'sat' });
  await cashu.loadMint();
  await cashu.mintProofsBolt11(21, payload.quoteId);
  await socket.nextMessage();
  await socket.close();
  return mint;
}

async function useFailingMints(): Promise<TestMint[]> {
  const failing = await assignTestMint(wallet);
  failing.failNext('POST /v1/mint/quote/bolt11', 2);
  await expect(world.requestInvoice(wallet, 1)).rejects.toThrow();

  const wrongAmount = await assignTestMint(wallet, { invoiceAmountOverrideSat: 2 });
  await expect(world.requestInvoice(wallet, 1)).rejects.toThrow();

  const disconnecting = await assignTestMint(wallet);
  addVerifyToken((await world.requestInvoice(wallet, 1)).verify);
  disconnecting.dropSockets();
  return [failing, wrongAmount, disconnecting];
}

async function signIn(): Promise<void> {
  const path = '/api/v2/wallet/quotes';
  const authorization = addSecret('a NIP-98 authorization', wallet.signRequest(path));
  await requestJson(world.origin, path, { headers: { authorization } });
  const { body } = await wallet.get('/api/v2/auth/nip98');
  const token = addSecret('a JWT', body.data.token);
  for (const value of [token, `${token}x`]) {
    addSecret('the signature of a JWT', value.split('.')[2] ?? '');
    await requestJson(world.origin, path, { headers: { authorization: `Bearer ${value}` } });
  }
  const headers = {
    authorization,
    'x-cashu': addSecret('a Cashu token', `cashuB${'c'.repeat(40)}`),
  };
  await requestJson(world.origin, '/api/v2/user/username', { method: 'POST', headers });

  const socket = new TestQuoteSocket(world.origin);
  await socket.nextMessage();
  socket.send(
    'challenge-response',
    addSecret('an authorization for another URL', wallet.signRequest('/elsewhere')),
  );
  await socket.waitForClose();
}

/** Makes purchases that succeed, are rejected, are delayed by the mint and fail in the database. */
async function buyUsernames(): Promise<void> {
  const payer = await EcashPayer.open(world.mint);
  const token = async () => {
    const proofs = await payer.mintProofs(21);
    for (const { secret, C } of proofs) {
      addSecret('the secret of a proof', secret);
      addSecret('the signature of a proof', C);
    }
    return addSecret('a payment token', payer.encodeToken(proofs));
  };
  const good = await token();
  expect((await buyUsername(wallet, 'bought', good)).status).toBe(201);
  expect((await buyUsername(wallet, 'other', good)).status).toBe(402);

  world.mint.failNext('POST /v1/swap', 2);
  expect((await buyUsername(wallet, 'heldup', await token())).status).toBe(500);
  await captured.waitForText('username purchase is still pending');

  const { db } = world.database;
  await sql`alter table username_purchases add constraint unlucky check (name <> 'unlucky')`.execute(
    db,
  );
  expect((await buyUsername(wallet, 'unlucky', await token())).status).toBe(500);
}

/** Sends comments and zap requests: delivered ones, and ones that a mint echoes in an error. */
async function sendPayerTexts(): Promise<void> {
  const relay = await startRelay();
  const mint = await assignTestMint(wallet);
  const paid = await requestInvoiceWithTexts(relay.url);
  addVerifyToken(paid.verify);
  mint.pay(paid.pr);
  await relay.waitForEvents(1);

  let echoedText = '';
  const echoingMint = await startScriptedMint(({ description = echoedText }) => {
    echoedText = description;
    return { detail: `No: ${echoedText}`, code: 0 };
  }, 400);
  expect((await setMint(wallet, echoingMint.url)).status).toBe(200);
  expect(await requestInvoiceWithTexts(relay.url)).toHaveProperty('reason');
  await assignTestMint(wallet);
}

/** Requests an invoice with a comment and a zap request. Returns the response body. */
async function requestInvoiceWithTexts(relay: string, amountSat = 21) {
  const amountMsat = amountSat * 1000;
  const zap = createZapRequest({
    recipient: wallet.pubkey,
    amountMsat,
    relays: [relay],
    comment: addSecret('the content of a zap request', uniqueText('to all')),
  });
  addSecret('the signature of a zap request', zap.event.sig);
  const comment = addSecret('a comment', uniqueText('to you'));
  const query = `${buildZapQuery(zap.text, amountMsat)}&comment=${encodeURIComponent(comment)}`;
  return (await requestJson(world.origin, `/.well-known/lnurlp/${wallet.npub}?${query}`)).body;
}

/** Returns several short words, because long words from a mint are never logged. */
function uniqueText(start: string): string {
  return `${start}: ${randomUUIDv7().replaceAll('-', ' ')}`;
}

/** Sends requests that fail early, with a verify token in unexpected places. */
async function sendInvalidRequests(): Promise<void> {
  const { verify } = await world.requestInvoice(wallet, 3);
  const token = addVerifyToken(verify);
  for (const path of [
    `/lnurl/verify/${token}/more`,
    `/lnurl/verify/${token}%zz`,
    `/elsewhere/${token}`,
    `/.well-known/nostr.json?name=${token}`,
    `/api/v2/wallet/quotes?since=${token}`,
  ]) {
    await sendRawRequest(world.origin, path);
    await sendRawRequest(world.origin, path, {
      headers: { connection: 'upgrade', upgrade: 'h2c' },
    });
  }
  await sendRawBytes(world.origin, `GET /lnurl/verify/${token} HTTP/1.1\r\n: wrongAmount\r\n\r\n`);
  const body = addSecret('a body', `{"mint_url":"https://${token}@mint.example`);
  const headers = { authorization: wallet.signRequest('/api/v2/user/mint', 'PATCH') };
  await sendRawRequest(world.origin, '/api/v2/user/mint', { method: 'PATCH', headers, body });
}

/** Causes database errors, because they include the affected rows. */
async function breakDatabase(): Promise<void> {
  const { db } = world.database;
  const mint = await assignTestMint(wallet);
  await sql`alter table quotes add constraint unlucky
    check (amount_sat <> 13 and (amount_sat <> 14 or state = 'UNPAID'))`.execute(db);
  await expect(world.requestInvoice(wallet, 13)).rejects.toThrow('could not complete');
  expect(await requestInvoiceWithTexts('wss://a.example', 13)).toHaveProperty('reason');
  const { pr, verify } = await world.requestInvoice(wallet, 14);
  const token = addVerifyToken(verify);
  mint.pay(pr);
  await captured.waitForText('quote_rows_inconsistent');
  for (const id of mint.quotes.keys()) {
    addSecret(`a quote id of amount ${mint.quotes.get(id)?.amountSat}`, id);
  }

  await sql`alter table quotes rename to quotes_lost`.execute(db);
  await requestJson(world.origin, `/lnurl/verify/${token}`);
  await wallet.get('/api/v2/wallet/quotes');
  await captured.waitForText('watcher_database_failed');
  await sql`alter table quotes_lost rename to quotes`.execute(db);
}

function addVerifyToken(verify: string): string {
  return addSecret('a verify token', verify.slice(-64));
}

/** Registers and returns a secret. */
function addSecret(name: string, secret: string): string {
  secrets.set(`${name} (${secrets.size})`, secret.replace(/^(Nostr|Bearer) /, ''));
  return secret;
}
