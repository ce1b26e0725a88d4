import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { Wallet } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { nip19 } from 'nostr-tools';
import { beforeAll, expect, it } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { runNutpost } from '../helpers/nutpost-process.ts';
import { plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { startRelay } from '../helpers/relays.ts';
import { startScriptedMint } from '../helpers/scripted-mint.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { request, TestSocket, type TestWallet } from '../helpers/wallet.ts';
import {
  chooseMint,
  giveOwnMint,
  TEST_JWT_SECRET,
  TEST_TREASURY_SECRET,
  useWorld,
} from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** What can happen to secrets in the service, logged at the level `trace`. */

const captured = new LogCapture('trace');
/** By what it is. */
const secrets = new Map<string, string>([
  ['the secret that tokens are signed with', TEST_JWT_SECRET],
  ['the secret that earnings are encrypted with', TEST_TREASURY_SECRET],
  ['the key that receipts are signed with', TEST_ZAP_SECRET_KEY],
]);

const world = useWorld({
  env: { USERNAME_PRICE_SAT: '21', ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
  surroundings: { log: captured.log },
});
let wallet: TestWallet;

beforeAll(async () => {
  wallet = world.newWallet();
  secrets.set('a secret key', Buffer.from(wallet.secretKey).toString('hex'));
  secrets.set('a secret key in words', nip19.nsecEncode(wallet.secretKey));
});

it('never logs a quote id, a token, ecash, a signature, a key or the text of a payer', async () => {
  const mints = [world.mint, await aPaymentAndItsCollection(), ...(await mintsInTrouble())];
  await signingIn();
  await purchases();
  await payersTexts();
  await invalidRequests();
  await aBrokenDatabase();

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

it('describes the error that ends the process, without secrets', async () => {
  const secret = randomBytes(32).toString('hex');
  // The stack contains the text of this module, so the secret comes from the environment.
  const failing = `
    const { SECRET } = process.env;
    process.on('newListener', (event) => {
      if (event === 'uncaughtException') {
        const cause = Object.assign(new Error('{"quoteId":"' + SECRET + '"}'), { detail: SECRET });
        throw new Error('Bearer ' + SECRET, { cause });
      }
    });`;
  const { code, stdout, stderr } = await runNutpost(['serve'], {
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(failing)}`,
    SECRET: secret,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('Error: Bearer [redacted]');
  expect(stderr).toContain('caused by:\nError: {"quoteId":"[redacted]"}');
  expect(stdout + stderr).not.toContain(secret);
});

/** Invoice, payment, update, list, verification, and the ecash minted. */
async function aPaymentAndItsCollection(): Promise<TestMint> {
  const mint = await giveOwnMint(wallet);
  const socket = await wallet.openSocket();
  const { pr, verify } = await world.askInvoice(wallet, 21);
  keepVerifyToken(verify);
  await request(verify, '');
  mint.pay(pr);
  const { payload } = await socket.next();
  await wallet.listQuotes();
  await request(verify, '');

  const cashu = new Wallet(mint.url, { unit: 'sat' });
  await cashu.loadMint();
  await cashu.mintProofsBolt11(21, payload.quoteId);
  await socket.next();
  await socket.close();
  return mint;
}

async function mintsInTrouble(): Promise<TestMint[]> {
  const busy = await giveOwnMint(wallet);
  busy.failNext('POST /v1/mint/quote/bolt11', 2);
  await expect(world.askInvoice(wallet, 1)).rejects.toThrow();

  const wrong = await giveOwnMint(wallet, { wrongInvoiceAmountSat: 2 });
  await expect(world.askInvoice(wallet, 1)).rejects.toThrow();

  const disconnecting = await giveOwnMint(wallet);
  keepVerifyToken((await world.askInvoice(wallet, 1)).verify);
  disconnecting.dropSockets();
  return [busy, wrong, disconnecting];
}

async function signingIn(): Promise<void> {
  const path = '/api/v2/wallet/quotes';
  const authorization = keep('an authorization', wallet.sign(path));
  await request(world.base, path, { headers: { authorization } });
  const { body } = await wallet.get('/api/v2/auth/nip98');
  const token = keep('a token', body.data.token);
  for (const value of [token, `${token}x`]) {
    keep('a part of a token', value.split('.')[2] ?? '');
    await request(world.base, path, { headers: { authorization: `Bearer ${value}` } });
  }
  const headers = { authorization, 'x-cashu': keep('a Cashu token', `cashuB${'c'.repeat(40)}`) };
  await request(world.base, '/api/v2/user/username', { method: 'POST', headers });

  const socket = new TestSocket(world.base);
  await socket.next();
  socket.send('challenge-response', keep('a wrong authorization', wallet.sign('/elsewhere')));
  await socket.closed();
}

/** Usernames: bought, rejected, delayed by a mint, and rejected by the database. */
async function purchases(): Promise<void> {
  const payer = await EcashPayer.open(world.mint);
  const token = async () => {
    const proofs = await payer.proofs(21);
    for (const { secret, C } of proofs) {
      keep('the secret of a proof', secret);
      keep('the signature of a proof', C);
    }
    return keep('a token that pays', payer.encode(proofs));
  };
  const good = await token();
  expect((await buyUsername(wallet, 'bought', good)).status).toBe(201);
  expect((await buyUsername(wallet, 'other', good)).status).toBe(402);

  world.mint.failNext('POST /v1/swap', 2);
  expect((await buyUsername(wallet, 'heldup', await token())).status).toBe(500);
  await captured.until('a purchase is not settled yet');

  const { db } = world.database;
  await sql`alter table username_purchases add constraint unlucky check (name <> 'unlucky')`.execute(
    db,
  );
  expect((await buyUsername(wallet, 'unlucky', await token())).status).toBe(500);
}

/** Comments and zap requests: delivered, and in the error of a mint that repeats them. */
async function payersTexts(): Promise<void> {
  const relay = await startRelay();
  const mint = await giveOwnMint(wallet);
  const paid = await askWithTexts(relay.url);
  keepVerifyToken(paid.verify);
  mint.pay(paid.pr);
  await relay.waitFor(1);

  let repeated = '';
  const repeating = await startScriptedMint(({ description = repeated }) => {
    repeated = description;
    return { detail: `No: ${repeated}`, code: 0 };
  }, 400);
  expect((await chooseMint(wallet, repeating.url)).status).toBe(200);
  expect(await askWithTexts(relay.url)).toHaveProperty('reason');
  await giveOwnMint(wallet);
}

/** @returns what the payer receives */
async function askWithTexts(relay: string, amountSat = 21) {
  const amountMsat = amountSat * 1000;
  const zap = zapRequest({
    recipient: wallet.pubkey,
    amountMsat,
    relays: [relay],
    comment: keep('the content of a zap request', uniqueText('to all')),
  });
  keep('the signature of a zap request', zap.event.sig);
  const comment = keep('a comment', uniqueText('to you'));
  const query = `${zapQuery(zap.text, amountMsat)}&comment=${encodeURIComponent(comment)}`;
  return (await request(world.base, `/.well-known/lnurlp/${wallet.npub}?${query}`)).body;
}

/** In several words: long words of a mint are never logged. */
function uniqueText(start: string): string {
  return `${start}: ${randomUUIDv7().replaceAll('-', ' ')}`;
}

/** Requests that fail early, with a verify token in the wrong place. */
async function invalidRequests(): Promise<void> {
  const { verify } = await world.askInvoice(wallet, 3);
  const token = keepVerifyToken(verify);
  for (const path of [
    `/lnurl/verify/${token}/more`,
    `/lnurl/verify/${token}%zz`,
    `/elsewhere/${token}`,
    `/.well-known/nostr.json?name=${token}`,
    `/api/v2/wallet/quotes?since=${token}`,
  ]) {
    await plainRequest(world.base, path);
    await plainRequest(world.base, path, { headers: { connection: 'upgrade', upgrade: 'h2c' } });
  }
  await sendBytes(world.base, `GET /lnurl/verify/${token} HTTP/1.1\r\n: wrong\r\n\r\n`);
  const body = keep('a body', `{"mint_url":"https://${token}@mint.example`);
  const headers = { authorization: wallet.sign('/api/v2/user/mint', 'PATCH') };
  await plainRequest(world.base, '/api/v2/user/mint', { method: 'PATCH', headers, body });
}

/** The errors of a database quote the rows that they are about. */
async function aBrokenDatabase(): Promise<void> {
  const { db } = world.database;
  const mint = await giveOwnMint(wallet);
  await sql`alter table quotes add constraint unlucky
    check (amount_sat <> 13 and (amount_sat <> 14 or state = 'UNPAID'))`.execute(db);
  await expect(world.askInvoice(wallet, 13)).rejects.toThrow('could not complete');
  expect(await askWithTexts('wss://a.example', 13)).toHaveProperty('reason');
  const { pr, verify } = await world.askInvoice(wallet, 14);
  const token = keepVerifyToken(verify);
  mint.pay(pr);
  await captured.until('quote_rows_inconsistent');
  for (const id of mint.quotes.keys()) {
    keep(`a quote id of amount ${mint.quotes.get(id)?.amountSat}`, id);
  }

  await sql`alter table quotes rename to quotes_lost`.execute(db);
  await request(world.base, `/lnurl/verify/${token}`);
  await wallet.get('/api/v2/wallet/quotes');
  await captured.until('watcher_database_failed');
  await sql`alter table quotes_lost rename to quotes`.execute(db);
}

function keepVerifyToken(verify: string): string {
  return keep('a verify token', verify.slice(-64));
}

/** Remembers a secret. @returns the secret */
function keep(name: string, secret: string): string {
  secrets.set(`${name} (${secrets.size})`, secret.replace(/^(Nostr|Bearer) /, ''));
  return secret;
}
