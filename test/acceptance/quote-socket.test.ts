import { Wallet } from '@cashu/cashu-ts';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import { request, TestSocket, type TestWallet } from '../helpers/wallet.ts';
import { giveOwnMint, serveBeside, startBeside, useWorld } from '../helpers/world.ts';

/** The quote WebSocket (spec.md section 6). */

const PATH = '/api/v2/ws/quote';

/** RFC 6455 close codes. */
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;

const world = useWorld();

describe('the challenge', () => {
  it('is to sign this very url, on the host that the client used', async () => {
    const socket = open(world.base);
    expect(await socket.next()).toEqual({
      type: 'challenge',
      payload: { url: `${world.base}${PATH}`, method: 'GET' },
    });
  });
});

describe('the answer to the challenge', () => {
  it.each<[string, (wallet: TestWallet, url: string) => unknown]>([
    ['signs another url', (wallet) => wallet.sign('/api/v2/user/info')],
    ['is too old', (wallet, url) => wallet.sign('', 'GET', { url, createdAt: 1_700_000_000 })],
    ['lacks its scheme', (wallet, url) => wallet.sign('', 'GET', { url }).slice('Nostr '.length)],
    ['is a token', () => 'Bearer abc.def.ghi'],
    ['is no text', () => ({ event: true })],
    ['is missing', () => undefined],
  ])('that %s is told so, and the connection closed', async (_case, answer) => {
    const socket = open(world.base);
    const { payload } = await socket.next();
    socket.send('challenge-response', answer(world.newWallet(), payload.url));
    expect(await socket.next()).toEqual({ type: 'error', payload: expect.stringMatching(/\w/) });
    expect(await socket.closed()).toBe(POLICY_VIOLATION);
  });

  it('must come in time, and then no deadline applies', async () => {
    const service = await serveBeside(world, {}, { socketAuthDeadlineMs: 2_000 });
    const punctual = await signIn(world.newWallet(), service.publicOrigin);
    const late = open(service.publicOrigin);
    expect((await late.next()).type).toBe('challenge');
    expect(await late.next()).toEqual({ type: 'error', payload: 'Authentication timed out.' });
    expect(await late.closed()).toBe(POLICY_VIOLATION);
    expect(await punctual.drain()).toEqual([]);
  });
});

describe('what else a client sends', () => {
  it('a ping is answered, before and after signing in', async () => {
    const wallet = world.newWallet();
    const socket = open(world.base);
    const { payload } = await socket.next();
    socket.send('ping');
    expect(await socket.next()).toEqual({ type: 'pong' });
    socket.send('challenge-response', wallet.sign('', 'GET', payload));
    expect((await socket.next()).type).toBe('challenge-success');
    socket.send('ping');
    expect(await socket.next()).toEqual({ type: 'pong' });
  });

  it('anything unknown is passed over', async () => {
    const socket = await openSocket(world.newWallet());
    const { connection } = socket;
    for (const message of [
      'hello',
      '{',
      'null',
      '[]',
      '7',
      '{"type":7}',
      '{"type":"auth","data":{"token":"abc"}}',
      '["REQ","sub",{"kinds":[1]}]',
      '{"jsonrpc":"2.0","method":"subscribe","params":{},"id":1}',
      '',
    ]) {
      connection.send(message);
    }
    connection.send(Buffer.from([0xff, 0x00]));
    expect(await socket.drain()).toEqual([]);
  });
});

describe('an update', () => {
  it('comes once to each socket of the recipient, and to nobody else', async () => {
    const { wallet, mint } = await walletWithMint();
    const stranger = world.newWallet();
    const sockets = [await openSocket(wallet), await openSocket(wallet)];
    const strangers = [await openSocket(stranger), open(world.base)];
    await strangers[1]?.next();

    const update = { type: 'update', payload: { quoteId: await receive(wallet, mint) } };
    for (const socket of sockets) {
      expect(await socket.next()).toEqual(update);
    }
    for (const socket of [...sockets, ...strangers]) {
      expect(await socket.drain()).toEqual([]);
    }
  });

  it('comes when a quote is collected, and while the mint is at it', async () => {
    const { wallet, mint } = await walletWithMint();
    mint.switches.issuePauseMs = 1_000;
    const socket = await openSocket(wallet);
    await receive(wallet, mint);
    const { payload } = await socket.next();

    const cashu = new Wallet(mint.url, { unit: 'sat' });
    await cashu.loadMint();
    const collecting = cashu.mintProofsBolt11(21, payload.quoteId);
    for (const state of ['INFLIGHT', 'ISSUED']) {
      expect(await socket.next()).toEqual({ type: 'update', payload });
      expect(await wallet.listQuotes()).toMatchObject([{ quoteId: payload.quoteId, state }]);
    }
    await collecting;
    expect(await socket.drain()).toEqual([]);
  });
});

it('a server that stops says so first, so that wallets reconnect', async () => {
  const service = await startBeside(world, {});
  const signedIn = await signIn(world.newWallet(), service.publicOrigin);
  const waiting = open(service.publicOrigin);
  expect((await waiting.next()).type).toBe('challenge');

  const stopped = service.stop();
  for (const socket of [signedIn, waiting]) {
    expect(await socket.next()).toEqual({
      type: 'error',
      payload: 'The server is restarting. Please reconnect.',
    });
    expect(await socket.closed()).toBe(GOING_AWAY);
  }
  await stopped;
});

describe('without a WebSocket', () => {
  it('a request is told in JSON what this is', async () => {
    const { status, body } = await request(world.base, PATH);
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: 'This is a WebSocket endpoint.' },
    });
  });
});

function open(base: string, path = PATH, headers: Record<string, string> = {}): TestSocket {
  const socket = new TestSocket(base, path, headers);
  onTestFinished(() => socket.connection.terminate());
  return socket;
}

function openSocket(wallet: TestWallet): Promise<TestSocket> {
  return signIn(wallet, world.base);
}

async function signIn(wallet: TestWallet, base: string): Promise<TestSocket> {
  const socket = open(base);
  const { payload } = await socket.next();
  socket.send('challenge-response', wallet.sign('', 'GET', payload));
  expect(await socket.next()).toEqual({ type: 'challenge-success' });
  return socket;
}

async function walletWithMint(): Promise<{ wallet: TestWallet; mint: TestMint }> {
  const wallet = world.newWallet();
  return { wallet, mint: await giveOwnMint(wallet) };
}

/** An invoice and its payment; gives the quote's id. */
async function receive(wallet: TestWallet, mint: TestMint, amountSat = 21) {
  const { pr } = await world.askInvoice(wallet, amountSat);
  mint.pay(pr);
  return quoteIdOf(mint, pr);
}

function quoteIdOf(mint: TestMint, invoice: string): string | undefined {
  return [...mint.quotes.values()].find((quote) => quote.request === invoice)?.id;
}
