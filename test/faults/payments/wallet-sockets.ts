import { TestQuoteSocket } from '../../helpers/test-wallet.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import { describePayment, type ExpectedPayments, type Recipient } from './expected-payments.ts';

const MIN_RECONNECT_DELAY_MS = 100;
const MAX_RECONNECT_DELAY_MS = 1_000;

/** One connection of a recipient's wallet. Times in milliseconds since 1970. */
export interface SocketSession {
  recipient: Recipient;
  openedAtMs: number;
  /** Null: still open. */
  closedAtMs: number | null;
  /** Number of updates by quote id. */
  updates: Map<string, number>;
}

/** Quote sockets of the recipients' wallets, which reconnect after each disconnection. */
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
    const keepOne = async (recipient: Recipient, socket: number) => {
      const socketRandom = random.fork(`socket ${socket} of recipient ${recipient.index}`);
      do {
        await this.#connect(recipient, deployment.anyOrigin(socketRandom));
      } while (
        await sleepUnlessAborted(
          socketRandom.between(MIN_RECONNECT_DELAY_MS, MAX_RECONNECT_DELAY_MS),
          signal,
        )
      );
    };
    await Promise.all(
      this.#expectedPayments.recipients.flatMap((recipient) =>
        Array.from({ length: socketCount(recipient) }, (_, i) => keepOne(recipient, i)),
      ),
    );
  }

  async #connect(recipient: Recipient, origin: string): Promise<void> {
    const { checkResults, signal } = this.#storm;
    const socket = new TestQuoteSocket(origin);
    socket.connection.on('error', () => undefined);
    const terminate = () => socket.connection.terminate();
    signal.addEventListener('abort', terminate);
    const closed = socket.waitForClose().then(() => null);
    const next = () => Promise.race([socket.nextMessage(), closed]);
    const session: SocketSession = {
      recipient,
      openedAtMs: 0,
      closedAtMs: null,
      updates: new Map(),
    };
    for (let message = await next(); message !== null; message = await next()) {
      if (message.type === 'challenge') {
        const response = recipient.wallet
          .withOrigin(origin)
          .signRequest('', 'GET', message.payload);
        socket.send('challenge-response', response);
      } else if (message.type === 'challenge-success') {
        session.openedAtMs = Date.now();
        this.sessions.push(session);
      } else if (message.type === 'update') {
        this.#receive(session, message.payload.quoteId);
      } else {
        checkResults.addProblem(
          'responseFormat',
          `a quote socket received ${JSON.stringify(message)}`,
        );
      }
    }
    session.closedAtMs = Date.now();
    signal.removeEventListener('abort', terminate);
  }

  #receive({ recipient, updates }: SocketSession, quoteId: string): void {
    updates.set(quoteId, (updates.get(quoteId) ?? 0) + 1);
    const payment = this.#expectedPayments.payment(quoteId);
    if (payment?.invoice.recipient !== recipient) {
      const what = payment === undefined ? 'an unpaid quote' : describePayment(payment);
      this.#storm.checkResults.addProblem('notEarly', `recipient ${recipient.index} got ${what}`);
    }
  }
}

/** A quarter of the recipients have two sockets, and a quarter have one. */
function socketCount({ index }: Recipient): number {
  return [2, 0, 1, 0][index % 4] ?? 0;
}
