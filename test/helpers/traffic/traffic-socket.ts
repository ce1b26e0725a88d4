import { type RecipientClient, TestQuoteSocket } from '../recipients/recipient-client.ts';

/** What a stopping process sends before it closes a socket. */
const RESTART_ERROR = 'The server is restarting. Please reconnect.';

/** Keeps a quote socket open until the service closes it or the signal aborts. */
export async function receiveUpdates(
  wallet: RecipientClient,
  signal: AbortSignal,
  handlers: {
    authenticated: () => void;
    updated: (quoteId: string) => void;
    report: (unexpectedMessage: string) => void;
  },
): Promise<void> {
  const socket = new TestQuoteSocket(wallet.origin);
  const terminate = () => socket.connection.terminate();
  signal.addEventListener('abort', terminate);
  socket.connection.on('error', () => undefined);
  socket.connection.on('message', (data) => {
    const { type, payload } = JSON.parse(String(data));
    if (type === 'challenge') {
      socket.send('challenge-response', wallet.signRequest('', 'GET', payload));
    } else if (type === 'challenge-success') {
      handlers.authenticated();
    } else if (type === 'update') {
      handlers.updated(payload.quoteId);
    } else if (type !== 'error' || payload !== RESTART_ERROR) {
      handlers.report(String(data));
    }
  });
  await socket.waitForClose();
  signal.removeEventListener('abort', terminate);
}
