import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Wallet } from '@cashu/cashu-ts';
import { sql } from 'kysely';
import { nip19 } from 'nostr-tools';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../src/demo/test-mint.ts';
import { EcashPayer } from '../helpers/ecash-payer.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { runNutpost } from '../helpers/nutpost-command.ts';
import { chooseMint, giveOwnMint, setLock } from '../helpers/own-mint.ts';
import { plainRequest, sendBytes } from '../helpers/plain-http.ts';
import { TestRelay } from '../helpers/test-relay.ts';
import { buyUsername } from '../helpers/username-buyer.ts';
import { request, TestSocket, type TestWallet } from '../helpers/wallet.ts';
import { openWorld, TEST_JWT_SECRET, TEST_TREASURY_SECRET, type World } from '../helpers/world.ts';
import { TEST_ZAP_SECRET_KEY, zapQuery, zapRequest } from '../helpers/zap-requests.ts';

/** Everything that can happen, at the most talkative level that there is. */

const captured = new LogCapture('trace');
/** What must not be found, by what it is. */
const secrets = new Map<string, string>([
  ['the secret that tokens are signed with', TEST_JWT_SECRET],
  ['the secret that earnings are encrypted with', TEST_TREASURY_SECRET],
  ['the key that receipts are signed with', TEST_ZAP_SECRET_KEY],
]);

let world: World;
let wallet: TestWallet;

beforeAll(async () => {
  world = await openWorld({
    env: { USERNAME_PRICE_SAT: '21', ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY },
    surroundings: { log: captured.log },
  });
  wallet = world.newWallet();
  secrets.set('a secret key', Buffer.from(wallet.secretKey).toString('hex'));
  secrets.set('a secret key in words', nip19.nsecEncode(wallet.secretKey));
});

afterAll(() => world.close());

it('no log line holds a quote id, a verify token, a token, ecash, a signature, a key or a payer’s words', async () => {
  const mints = [world.mint, await aPaymentAndItsCollection(), ...(await mintsInTrouble())];
  await signingIn();
  await purchases();
  await payersWords();
  await aMintThatTellsSecrets();
  await wrongRequests();
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
  // It is a log of what happened, not an empty one.
  for (const text of ['"status":200', '"status":401', '"status":500', 'mint created no quote']) {
    expect(log).toContain(text);
  }
});

it('a process that ends by an error tells why, and no secret', async () => {
  const secret = randomBytes(32).toString('hex');
  // It fails as the service starts to listen for errors. The text of this module turns up in stacks, so
  // that it must not hold the secret itself.
  const failing = `
    const { TOLD } = process.env;
    const refused = Object.assign(new Error("no such quoteId: '" + TOLD + "'"), {
      code: '23505',
      detail: TOLD,
    });
    process.on('newListener', (event) => {
      if (event === 'uncaughtException') {
        throw new AggregateError([refused, 1], 'Bearer ' + TOLD, { cause: { code: 'GONE' } });
      }
    });`;
  const { code, stdout, stderr } = await runNutpost(['serve'], {
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(failing)}`,
    TOLD: secret,
  });
  expect(code).toBe(1);
  expect(stderr).toContain('AggregateError: Bearer [redacted]');
  expect(stderr).toContain('one of its errors: Error: no such quoteId: [redacted]');
  expect(stderr).toContain('\n  code: 23505\n');
  expect(stderr).toContain('caused by: an object was thrown\n  code: GONE\n');
  expect(stdout + stderr).not.toContain(secret);
});

/** Invoice, payment, update, list, verification, and the money fetched. */
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

  const strict = await giveOwnMint(wallet);
  strict.switches.rateLimit = { perMinute: 0 };
  await expect(world.askInvoice(wallet, 1)).rejects.toThrow();

  const wrong = await giveOwnMint(wallet, { wrongInvoiceAmountSat: 2 });
  await expect(world.askInvoice(wallet, 1)).rejects.toThrow();

  const small = await giveOwnMint(wallet, { style: 'cdk' });
  small.switches.maxAmountSat = 1;
  await expect(world.askInvoice(wallet, 2)).rejects.toThrow();

  const forgetful = await giveOwnMint(wallet, { echoPubkey: false });
  await setLock(wallet, true);
  await expect(world.askInvoice(wallet, 1)).rejects.toThrow();
  await setLock(wallet, false);

  const cut = await giveOwnMint(wallet);
  keepVerifyToken((await world.askInvoice(wallet, 1)).verify);
  cut.dropSockets();
  return [busy, strict, wrong, small, forgetful, cut];
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
  const wrong = keep('a wrong authorization', wallet.sign('/elsewhere'));
  await request(world.base, path, { headers: { authorization: wrong } });
  const headers = { authorization, 'x-cashu': keep('a Cashu token', `cashuB${'c'.repeat(40)}`) };
  await request(world.base, '/api/v2/user/username', { method: 'POST', headers });

  const socket = new TestSocket(world.base);
  await socket.next();
  socket.send('challenge-response', wrong);
  await socket.closed();
  const careless = new TestSocket(world.base);
  await careless.next();
  careless.send('challenge-response', keep('what is too long', 's'.repeat(50_000)));
  await careless.closed();
}

/** A username that is bought, refused, and held up by a mint and by the database. */
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
  await captured.until('a purchase of a username is not settled yet');

  const { db } = world.database;
  await sql`alter table username_purchases add constraint unlucky check (name <> 'unlucky')`.execute(
    db,
  );
  expect((await buyUsername(wallet, 'unlucky', await token())).status).toBe(500);
}

/** Payments with a comment and a zap request: made, refused, and by mints that repeat the words. */
async function payersWords(): Promise<void> {
  const relay = await TestRelay.start();
  onTestFinished(() => relay.close());
  const mint = await giveOwnMint(wallet);
  const paid = await askWithWords(relay.url);
  keepVerifyToken(paid.verify);
  mint.pay(paid.pr);
  await relay.waitFor(1);

  for (const status of [400, 500]) {
    await giveOwnMint(wallet, { refusesWords: { longerThanBytes: 0, status } });
    keepVerifyToken((await askWithWords(relay.url)).verify);
    await giveRepeatingMint(wallet, status);
    expect(await askWithWords(relay.url)).toHaveProperty('reason');
  }
  for (const tooMuch of [{ comment: 'x'.repeat(300) }, { content: 'x'.repeat(8_000) }]) {
    expect(await askWithWords(relay.url, tooMuch)).toHaveProperty('reason');
  }
  expect(await askWithWords('nowhere')).toHaveProperty('reason');
  await giveOwnMint(wallet);
}

/**
 * @param order.comment, order.content added to words that are secrets
 * @returns what the payer is told
 */
async function askWithWords(
  relay: string,
  order: { amountSat?: number; comment?: string; content?: string } = {},
) {
  const { amountSat = 21, comment = '', content = '' } = order;
  const amountMsat = amountSat * 1000;
  const zap = zapRequest({
    recipient: wallet.pubkey,
    amountMsat,
    relays: [relay],
    comment: `${keep('the content of a zap request', inWords('to all'))}${content}`,
  });
  keep('the signature of a zap request', zap.event.sig);
  const words = `${keep('a comment', inWords('to you'))}${comment}`;
  const query = `${zapQuery(zap.text, amountMsat)}&comment=${encodeURIComponent(words)}`;
  return (await request(world.base, `/.well-known/lnurlp/${wallet.npub}?${query}`)).body;
}

/** Something unheard of, in words: a mint's words that are none do not get to the log in any case. */
function inWords(start: string): string {
  return `${start}: ${randomUUIDv7().replaceAll('-', ' ')}`;
}

/** A mint that refuses every order and repeats the last words that it was told. */
async function giveRepeatingMint(payee: TestWallet, status: number): Promise<void> {
  let words = '';
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const isInfo = request.url?.endsWith('/v1/info') === true;
    words = isInfo ? words : (JSON.parse(await text(request)).description ?? words);
    const body = isInfo ? TALKATIVE_INFO : { detail: `No: ${words}`, code: 0 };
    response.writeHead(isInfo ? 200 : status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  const url = await listening(server);
  expect((await chooseMint(payee, url)).status).toBe(200);
}

/** @returns where it listens for as long as the test runs */
async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const TALKATIVE_INFO = {
  nuts: {
    4: { methods: [{ method: 'bolt11', unit: 'sat', description: true }], disabled: false },
  },
};

/** A mint is free to answer with whatever it has heard or made up, and to lie behind any path. */
async function aMintThatTellsSecrets(): Promise<void> {
  const secret = () => keep('a secret that a mint tells', randomBytes(32).toString('hex'));
  const ecash = () => keep('a token that a mint tells', `cashuB${secret()}`);
  const id = () => keep('a quote id that a mint tells', randomUUIDv7());
  const details = [
    `Token ${ecash()} is spent.`,
    `No: {"amount":21,"secret":"${secret()}","C":"02${secret()}"}`,
    `No: ${JSON.stringify({ detail: JSON.stringify({ witness: secret() }) })}`,
    `Unknown: /v1/mint/quote/bolt11/${id()}`,
    `Unknown: {"quote_id": "${id()}"}`,
    `Bearer ${secret()} is over.`,
    `See https://nutpost.example/lnurl/verify/${secret()}`,
    `No route to postgres://mint:${secret()}@db.example/mint`,
    `No: ?token=${ecash()}%2Bmh0${secret()}`,
    `No: %7B%22secret%22%3A%22${secret()}%22%7D`,
    `No: { secret: '${secret()}' }`,
    `No: ${base64([{ secret: secret() }])}`,
    `Unknown: /v1/mint/quote/bolt11//${id()}`,
    `Unknown: /v1/mint/quote/bolt11/check-${id()}`,
    `Unknown: {"quoteIds":[["${id()}"],["${id()}"]]}`,
    `My key is ${keep('a key that a mint tells', nip19.nsecEncode(randomBytes(32)))}`,
  ];
  const answers = [...details];
  const server = createServer((request, response) => {
    const isInfo = request.url?.endsWith('/v1/info') === true;
    const body = isInfo ? MINT_INFO : { detail: answers.shift(), code: 0 };
    response.writeHead(isInfo ? 200 : 400, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
  const url = `${await listening(server)}/${ecash()}`;
  const payee = world.newWallet();
  expect((await chooseMint(payee, url)).status).toBe(200);

  const before = captured.lines.length;
  for (const _detail of details) {
    await expect(world.askInvoice(payee, 1)).rejects.toThrow('no invoice');
  }
  const told = captured.lines
    .slice(before)
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => msg === 'mint created no quote');
  expect(answers).toEqual([]);
  expect(told).toHaveLength(details.length);
  for (const { mintUrl, detail } of told) {
    expect(mintUrl).toMatch(/\/\[redacted\]$/);
    // Long runs without a space are left out of a mint's words before they get to the log.
    expect(detail).toMatch(/\[redacted\]|…/);
  }
}

const MINT_INFO = {
  nuts: { 4: { methods: [{ method: 'bolt11', unit: 'sat' }], disabled: false } },
};

/** Requests that go wrong early, with a verify token where it does not belong. */
async function wrongRequests(): Promise<void> {
  const { verify } = await world.askInvoice(wallet, 3);
  const token = keepVerifyToken(verify);
  for (const path of [
    `/lnurl/verify/${token}?x=1`,
    `/lnurl/verify/${token}/more`,
    `/lnurl/verify/${token}%zz`,
    `/elsewhere/${token}`,
    `/.well-known/lnurlp/${token}?amount=1`,
    `/.well-known/nostr.json?name=${token}`,
    `/api/v2/wallet/quotes?since=${token}`,
  ]) {
    await plainRequest(world.base, path);
    await plainRequest(world.base, path, { headers: { connection: 'upgrade', upgrade: 'h2c' } });
    await plainRequest(world.base, path, {
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      },
    });
  }
  await sendBytes(world.base, `GET /lnurl/verify/${token} HTTP/1.1\r\n: wrong\r\n\r\n`);
  const body = keep('a body', `{"mint_url":"https://${token}@mint.example`);
  const headers = { authorization: wallet.sign('/api/v2/user/mint', 'PATCH') };
  await plainRequest(world.base, '/api/v2/user/mint', { method: 'PATCH', headers, body });
}

/** A database's error quotes the row that it is about. */
async function aBrokenDatabase(): Promise<void> {
  const { db } = world.database;
  const mint = await giveOwnMint(wallet);
  await sql`alter table quotes add constraint unlucky
    check (amount_sat <> 13 and (amount_sat <> 14 or state = 'UNPAID'))`.execute(db);
  await expect(world.askInvoice(wallet, 13)).rejects.toThrow('could not complete');
  expect(await askWithWords('wss://a.example', { amountSat: 13 })).toHaveProperty('reason');
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

function base64(value: unknown): string {
  return keep('what a mint tells in base64', Buffer.from(JSON.stringify(value)).toString('base64'));
}

function keepVerifyToken(verify: string): string {
  return keep('a verify token', verify.slice(-64));
}

/** Remembers a secret, and gives it back. */
function keep(name: string, secret: string): string {
  secrets.set(`${name} (${secrets.size})`, secret.replace(/^(Nostr|Bearer) /, ''));
  return secret;
}
