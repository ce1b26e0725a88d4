import { Wallet } from '@cashu/cashu-ts';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { TestMint } from '../../demo/test-mint.ts';
import {
  assignTestMint,
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/test-environment.ts';
import { requestJson, TestQuoteSocket, type TestWallet } from '../helpers/test-wallet.ts';

/** The quote WebSocket (spec.md section 6). */

const PATH = '/api/v2/ws/quote';

/** RFC 6455 close codes. */
const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;

const world = useTestEnvironment();

describe('the challenge', () => {
  it('contains the socket URL with the host that the client used', async () => {
    const socket = open(world.origin);
    expect(await socket.nextMessage()).toEqual({
      type: 'challenge',
      payload: { url: `${world.origin}${PATH}`, method: 'GET' },
    });
  });
});

describe('the challenge response', () => {
  it.each<[string, (wallet: TestWallet, url: string) => unknown]>([
    ['signs another URL', (wallet) => wallet.signRequest('/api/v2/user/info')],
    [
      'is too old',
      (wallet, url) => wallet.signRequest('', 'GET', { url, createdAt: 1_700_000_000 }),
    ],
    [
      'lacks its scheme',
      (wallet, url) => wallet.signRequest('', 'GET', { url }).slice('Nostr '.length),
    ],
    ['is a token', () => 'Bearer abc.def.ghi'],
    ['is not a string', () => ({ event: true })],
    ['is missing', () => undefined],
  ])('that %s gets an error, and the connection is closed', async (_case, respond) => {
    const socket = open(world.origin);
    const { payload } = await socket.nextMessage();
    socket.send('challenge-response', respond(world.newWallet(), payload.url));
    expect(await socket.nextMessage()).toEqual({
      type: 'error',
      payload: expect.stringMatching(/\w/),
    });
    expect(await socket.waitForClose()).toBe(POLICY_VIOLATION);
  });

  it('must arrive before the timeout, which then no longer applies', async () => {
    const service = await useAdditionalService(world, {}, { socketAuthTimeoutMs: 2_000 });
    const punctual = await signIn(world.newWallet(), service.publicOrigin);
    const late = open(service.publicOrigin);
    expect((await late.nextMessage()).type).toBe('challenge');
    expect(await late.nextMessage()).toEqual({
      type: 'error',
      payload: 'Authentication timed out.',
    });
    expect(await late.waitForClose()).toBe(POLICY_VIOLATION);
    expect(await punctual.drainMessages()).toEqual([]);
  });
});

describe('a client message', () => {
  it('of type ping gets a pong before and after authentication', async () => {
    const wallet = world.newWallet();
    const socket = open(world.origin);
    const { payload } = await socket.nextMessage();
    socket.send('ping');
    expect(await socket.nextMessage()).toEqual({ type: 'pong' });
    socket.send('challenge-response', wallet.signRequest('', 'GET', payload));
    expect((await socket.nextMessage()).type).toBe('challenge-success');
    socket.send('ping');
    expect(await socket.nextMessage()).toEqual({ type: 'pong' });
  });

  it('of unknown type is ignored', async () => {
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
    expect(await socket.drainMessages()).toEqual([]);
  });
});

describe('an update', () => {
  it('is sent once to each socket of the recipient and to no other socket', async () => {
    const { wallet, mint } = await createWalletWithMint();
    const otherWallet = world.newWallet();
    const sockets = [await openSocket(wallet), await openSocket(wallet)];
    const otherSockets = [await openSocket(otherWallet), open(world.origin)];
    await otherSockets[1]?.nextMessage();

    const update = { type: 'update', payload: { quoteId: await createPayment(wallet, mint) } };
    for (const socket of sockets) {
      expect(await socket.nextMessage()).toEqual(update);
    }
    for (const socket of [...sockets, ...otherSockets]) {
      expect(await socket.drainMessages()).toEqual([]);
    }
  });

  it('is sent when the mint starts and finishes issuing a quote', async () => {
    const { wallet, mint } = await createWalletWithMint();
    mint.switches.issueDelayMs = 1_000;
    const socket = await openSocket(wallet);
    await createPayment(wallet, mint);
    const { payload } = await socket.nextMessage();

    const cashu = new Wallet(mint.url, { unit: 'sat' });
    await cashu.loadMint();
    const minting = cashu.mintProofsBolt11(21, payload.quoteId);
    for (const state of ['INFLIGHT', 'ISSUED']) {
      expect(await socket.nextMessage()).toEqual({ type: 'update', payload });
      expect(await wallet.listQuotes()).toMatchObject([{ quoteId: payload.quoteId, state }]);
    }
    await minting;
    expect(await socket.drainMessages()).toEqual([]);
  });
});

it('sends an error before a shutdown closes the sockets, so that wallets reconnect', async () => {
  const service = await startAdditionalService(world, {});
  const signedIn = await signIn(world.newWallet(), service.publicOrigin);
  const unauthenticated = open(service.publicOrigin);
  expect((await unauthenticated.nextMessage()).type).toBe('challenge');

  const stopped = service.stop();
  for (const socket of [signedIn, unauthenticated]) {
    expect(await socket.nextMessage()).toEqual({
      type: 'error',
      payload: 'The server is restarting. Please reconnect.',
    });
    expect(await socket.waitForClose()).toBe(GOING_AWAY);
  }
  await stopped;
});

describe('a plain HTTP request', () => {
  it('gets a 400 that names the WebSocket endpoint', async () => {
    const { status, body } = await requestJson(world.origin, PATH);
    expect({ status, body }).toEqual({
      status: 400,
      body: { error: true, message: 'This is a WebSocket endpoint.' },
    });
  });
});

function open(base: string, path = PATH, headers: Record<string, string> = {}): TestQuoteSocket {
  const socket = new TestQuoteSocket(base, path, headers);
  onTestFinished(() => socket.connection.terminate());
  return socket;
}

function openSocket(wallet: TestWallet): Promise<TestQuoteSocket> {
  return signIn(wallet, world.origin);
}

async function signIn(wallet: TestWallet, base: string): Promise<TestQuoteSocket> {
  const socket = open(base);
  const { payload } = await socket.nextMessage();
  socket.send('challenge-response', wallet.signRequest('', 'GET', payload));
  expect(await socket.nextMessage()).toEqual({ type: 'challenge-success' });
  return socket;
}

async function createWalletWithMint(): Promise<{ wallet: TestWallet; mint: TestMint }> {
  const wallet = world.newWallet();
  return { wallet, mint: await assignTestMint(wallet) };
}

/** Requests an invoice and pays it. Returns the quote's id. */
async function createPayment(wallet: TestWallet, mint: TestMint, amountSat = 21) {
  const { pr } = await world.requestInvoice(wallet, amountSat);
  mint.pay(pr);
  return quoteIdOf(mint, pr);
}

function quoteIdOf(mint: TestMint, invoice: string): string | undefined {
  return [...mint.quotes.values()].find((quote) => quote.request === invoice)?.id;
}
