import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { TestQuoteSocket } from '../../helpers/recipients/recipient-client.ts';
import type { Storm } from '../storm.ts';
import { sleepUnlessAborted } from '../storm-client.ts';
import { describePayment, type ExpectedPayments, type Recipient } from './expected-payments.ts';
import type { ListReader } from './list-reader.ts';

const MIN_RECONNECT_DELAY_MS = 100;
const MAX_RECONNECT_DELAY_MS = 1_000;

/** What a stopping process sends before it closes a socket. */
const RESTART_ERROR = 'The server is restarting. Please reconnect.';

/** A wallet that learns of payments only from its quote socket, and from its list when it connects. */
interface SocketWallet {
  recipient: Recipient;
  knownQuoteIds: Set<string>;
}

/** One connection of a recipient's wallet. Times are in milliseconds since 1970. */
export interface SocketSession {
  recipient: Recipient;
  openedAtMs: number;
  closedAtMs: number | null;
  updateTimesMs: Map<string, number[]>;
}

/** The quote sockets of the recipients' wallets. The wallets reconnect after each disconnection. */
export class WalletSockets {
  readonly sessions: SocketSession[] = [];
  readonly wallets: readonly SocketWallet[];
  readonly #storm: Storm;
  readonly #expectedPayments: ExpectedPayments;
  readonly #listReader: ListReader;

  constructor(storm: Storm, expectedPayments: ExpectedPayments, listReader: ListReader) {
    this.#storm = storm;
    this.#expectedPayments = expectedPayments;
    this.#listReader = listReader;
    this.wallets = expectedPayments.recipients.flatMap((recipient) =>
      Array.from({ length: socketCount(recipient) }, () => ({
        recipient,
        knownQuoteIds: new Set<string>(),
      })),
    );
  }

  get updateCount(): number {
    return this.sessions
      .flatMap(({ updateTimesMs }) => [...updateTimesMs.values()])
      .reduce((sum, times) => sum + times.length, 0);
  }

  async keepConnected(): Promise<void> {
    const { random, signal } = this.#storm;
    const keepOneConnected = async (wallet: SocketWallet, index: number) => {
      const socketRandom = random.fork(`socket ${index}`);
      do {
        await this.#receiveUntilClosed(wallet, socketRandom);
      } while (
        await sleepUnlessAborted(
          socketRandom.between(MIN_RECONNECT_DELAY_MS, MAX_RECONNECT_DELAY_MS),
          signal,
        )
      );
    };
    await Promise.all(this.wallets.map(keepOneConnected));
  }

  async #receiveUntilClosed(wallet: SocketWallet, random: SeededRandom): Promise<void> {
    const { checkRecorder, signal } = this.#storm;
    const { recipient } = wallet;
    const origin = this.#storm.pickOrigin(random);
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
      updateTimesMs: new Map(),
    };
    const listReads: Promise<void>[] = [];
    for (let message = await nextMessage(); message !== null; message = await nextMessage()) {
      if (message.type === 'challenge') {
        const response = recipient.wallet
          .withOrigin(origin)
          .signRequest('', 'GET', message.payload);
        socket.send('challenge-response', response);
      } else if (message.type === 'challenge-success') {
        session.openedAtMs = Date.now();
        this.sessions.push(session);
        listReads.push(this.#readList(wallet, session, random));
      } else if (message.type === 'update') {
        this.#recordUpdate(session, message.payload.quoteId);
        wallet.knownQuoteIds.add(message.payload.quoteId);
      } else if (message.type !== 'error' || message.payload !== RESTART_ERROR) {
        checkRecorder.addProblem(
          'responseFormat',
          `a quote socket received ${JSON.stringify(message)}`,
        );
      }
    }
    session.closedAtMs = Date.now();
    signal.removeEventListener('abort', terminate);
    await Promise.all(listReads);
  }

  /** Reads the list after connecting, because updates may have been lost before. */
  async #readList(
    wallet: SocketWallet,
    session: SocketSession,
    random: SeededRandom,
  ): Promise<void> {
    const { signal } = this.#storm;
    for (;;) {
      const quotes = await this.#listReader.readAllPages(wallet.recipient);
      for (const { quoteId } of quotes ?? []) {
        wallet.knownQuoteIds.add(quoteId);
      }
      const delayMs = random.between(MIN_RECONNECT_DELAY_MS, MAX_RECONNECT_DELAY_MS);
      if (
        quotes !== null ||
        session.closedAtMs !== null ||
        !(await sleepUnlessAborted(delayMs, signal))
      ) {
        return;
      }
    }
  }

  #recordUpdate({ recipient, updateTimesMs }: SocketSession, quoteId: string): void {
    updateTimesMs.set(quoteId, [...(updateTimesMs.get(quoteId) ?? []), Date.now()]);
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
