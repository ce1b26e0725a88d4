import { TestQuoteSocket } from '../../helpers/recipients/recipient-client.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import { describePayment, type ExpectedPayments, type Recipient } from './expected-payments.ts';

const MIN_RECONNECT_DELAY_MS = 100;
const MAX_RECONNECT_DELAY_MS = 1_000;

/** One connection of a recipient's wallet. Times are in milliseconds since 1970. */
export interface SocketSession {
  recipient: Recipient;
  openedAtMs: number;
  /** Null while the socket is open. */
  closedAtMs: number | null;
  /** Number of received updates, by quote id. */
  updates: Map<string, number>;
}

/** The quote sockets of the recipients' wallets. The wallets reconnect after each disconnection. */
export class WalletSockets {
  readonly sessions: SocketSession[] = [];
  readonly #storm: Storm;
  readonly #expectedPayments: ExpectedPayments;

  constructor(storm: Storm, expectedPayments: ExpectedPayments) {
    this.#storm = storm;
    this.#expectedPayments = expectedPayments;
  }

  get updateCount(): number {
    return this.sessions
      .flatMap(({ updates }) => [...updates.values()])
      .reduce((sum, count) => sum + count, 0);
  }

  /** Keeps the sockets connected to random processes until the storm ends. */
  async keepConnected(): Promise<void> {
    const { deployment, random, signal } = this.#storm;
    const keepOneConnected = async (recipient: Recipient, socketIndex: number) => {
      const socketRandom = random.fork(`socket ${socketIndex} of recipient ${recipient.index}`);
      do {
        await this.#receiveUntilClosed(recipient, deployment.pickOrigin(socketRandom));
      } while (
        await sleepUnlessAborted(
          socketRandom.between(MIN_RECONNECT_DELAY_MS, MAX_RECONNECT_DELAY_MS),
          signal,
        )
      );
    };
    await Promise.all(
      this.#expectedPayments.recipients.flatMap((recipient) =>
        Array.from({ length: socketCount(recipient) }, (_, index) =>
          keepOneConnected(recipient, index),
        ),
      ),
    );
  }

  /** Connects to a process, authenticates, and records updates until the socket closes. */
  async #receiveUntilClosed(recipient: Recipient, origin: string): Promise<void> {
    const { checkRecorder, signal } = this.#storm;
    const socket = new TestQuoteSocket(origin);
    socket.connection.on('error', () => undefined);
    const terminate = () => socket.connection.terminate();
    signal.addEventListener('abort', terminate);
    const closing = socket.waitForClose().then(() => null);
    const nextMessage = () => Promise.race([socket.nextMessage(), closing]);
    const session: SocketSession = {
      recipient,
      openedAtMs: 0,
      closedAtMs: null,
      updates: new Map(),
    };
    for (let message = await nextMessage(); message !== null; message = await nextMessage()) {
      if (message.type === 'challenge') {
        const response = recipient.wallet
          .withOrigin(origin)
          .signRequest('', 'GET', message.payload);
        socket.send('challenge-response', response);
      } else if (message.type === 'challenge-success') {
        session.openedAtMs = Date.now();
        this.sessions.push(session);
      } else if (message.type === 'update') {
        this.#recordUpdate(session, message.payload.quoteId);
      } else {
        checkRecorder.addProblem(
          'responseFormat',
          `a quote socket received ${JSON.stringify(message)}`,
        );
      }
    }
    session.closedAtMs = Date.now();
    signal.removeEventListener('abort', terminate);
  }

  #recordUpdate({ recipient, updates }: SocketSession, quoteId: string): void {
    updates.set(quoteId, (updates.get(quoteId) ?? 0) + 1);
    const payment = this.#expectedPayments.payment(quoteId);
    if (payment?.invoice.recipient !== recipient) {
      const unexpected = payment === undefined ? 'an unpaid quote' : describePayment(payment);
      this.#storm.checkRecorder.addProblem(
        'notEarly',
        `recipient ${recipient.index} got an update for ${unexpected}`,
      );
    }
  }
}

/** A quarter of the recipients have two sockets, a quarter have one socket, and half have no socket. */
function socketCount({ index }: Recipient): number {
  return [2, 0, 1, 0][index % 4] ?? 0;
}
