import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type RecipientClient,
  requestJson,
  TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import {
  startAdditionalService,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';

const SOCKET_PATH = '/api/v2/ws/quote';

const GOING_AWAY = 1001;
const POLICY_VIOLATION = 1008;

const environment = useTestEnvironment();

it('sends a challenge with the host that the client used', async () => {
  const payload = { url: `${environment.origin}${SOCKET_PATH}`, method: 'GET' };
  const socket = openSocket(environment.origin);
  expect(await socket.nextMessage()).toEqual({ type: 'challenge', payload });
});

describe('a challenge response', () => {
  it.each<[string, (wallet: RecipientClient, url: string) => unknown]>([
    ['signs another URL', (wallet) => wallet.signRequest('/api/v2/user/info')],
    [
      'is too old',
      (wallet, url) => wallet.signRequest('', 'GET', { url, createdAtSeconds: 1_700_000_000 }),
    ],
    [
      'lacks its scheme',
      (wallet, url) => wallet.signRequest('', 'GET', { url }).slice('Nostr '.length),
    ],
    ['is not a string', () => ({ event: true })],
  ])('that %s gets an error, and the connection is closed', async (_case, respond) => {
    const socket = openSocket(environment.origin);
    const { payload } = await socket.nextMessage();
    socket.send('challenge-response', respond(environment.newWallet(), payload.url));
    expect(await socket.nextMessage()).toEqual({
      type: 'error',
      payload: expect.stringMatching(/\w/),
    });
    expect(await socket.waitForClose()).toBe(POLICY_VIOLATION);
  });

  it('must arrive before a timeout that does not apply to authenticated sockets', async () => {
    const service = await useAdditionalService(
      environment,
      {},
      { socketTiming: { authTimeoutMs: 2_000 } },
    );
    const authenticatedSocket = await signIn(environment.newWallet(), service.publicOrigin);
    const silentSocket = openSocket(service.publicOrigin);
    expect((await silentSocket.nextMessage()).type).toBe('challenge');
    expect(await silentSocket.nextMessage()).toEqual({
      type: 'error',
      payload: 'Authentication timed out.',
    });
    expect(await silentSocket.waitForClose()).toBe(POLICY_VIOLATION);
    expect(await authenticatedSocket.drainMessages()).toEqual([]);
  });
});

describe('a client message', () => {
  it('of type ping gets a pong before and after authentication', async () => {
    const wallet = environment.newWallet();
    const socket = openSocket(environment.origin);
    const { payload } = await socket.nextMessage();
    socket.send('ping');
    expect(await socket.nextMessage()).toEqual({ type: 'pong' });
    socket.send('challenge-response', wallet.signRequest('', 'GET', payload));
    expect((await socket.nextMessage()).type).toBe('challenge-success');
    socket.send('ping');
    expect(await socket.nextMessage()).toEqual({ type: 'pong' });
  });

  it('with more fields and lists than any message needs is ignored', async () => {
    const socket = await signIn(environment.newWallet());
    socket.send('ping', Array(200).fill({}));
    socket.send('ping', Object.fromEntries(Array.from({ length: 200 }, (_, i) => [i, 0])));
    socket.send('ping');
    // The server responds to all messages before it closes the connection.
    await socket.close();
    expect(socket.unreadMessages).toEqual([{ type: 'pong' }]);
  });
});

it('sends an error before a shutdown closes the sockets, so that wallets reconnect', async () => {
  const service = await startAdditionalService(environment, {});
  const authenticated = await signIn(environment.newWallet(), service.publicOrigin);
  const unauthenticated = openSocket(service.publicOrigin);
  expect((await unauthenticated.nextMessage()).type).toBe('challenge');

  const stopped = service.stop();
  for (const socket of [authenticated, unauthenticated]) {
    expect(await socket.nextMessage()).toEqual({
      type: 'error',
      payload: 'The server is restarting. Please reconnect.',
    });
    expect(await socket.waitForClose()).toBe(GOING_AWAY);
  }
  await stopped;
});

it('responds to a plain HTTP request that this is a WebSocket endpoint', async () => {
  const { status, body } = await requestJson(environment.origin, SOCKET_PATH);
  const message = 'This is a WebSocket endpoint.';
  expect([status, body]).toEqual([400, { error: true, code: 'invalid', message }]);
});

function openSocket(origin: string): TestQuoteSocket {
  const socket = new TestQuoteSocket(origin);
  onTestFinished(() => socket.connection.terminate());
  return socket;
}

async function signIn(wallet: RecipientClient, origin = environment.origin) {
  const socket = await wallet.withOrigin(origin).openSocket();
  onTestFinished(() => socket.connection.terminate());
  return socket;
}
