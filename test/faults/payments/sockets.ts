import { TestSocket } from '../../helpers/wallet.ts';
import { pause } from '../client.ts';
import type { Storm } from '../storm.ts';
import { describePayment, type Recipient, type Truth } from './truth.ts';

const SHORTEST_RECONNECT_MS = 100;
const LONGEST_RECONNECT_MS = 1_000;

/** One connection of a recipient's wallet. Times in milliseconds since 1970. */
export interface Session {
  recipient: Recipient;
  openedAtMs: number;
  /** Null while it is open. */
  closedAtMs: number | null;
  updates: Map<string, number>;
}

/** The quote sockets of the recipients' wallets, which reconnect whenever they are cut. */
export class WalletSockets {
  readonly sessions: Session[] = [];
  readonly #storm: Storm;
  readonly #truth: Truth;

  constructor(storm: Storm, truth: Truth) {
    this.#storm = storm;
    this.#truth = truth;
  }

  get updateCount(): number {
    return this.sessions
      .flatMap(({ updates }) => [...updates.values()])
      .reduce((sum, count) => sum + count, 0);
  }

  /** Keeps the sockets open, to whichever process is up, until the storm ends. */
  async keepOpen(): Promise<void> {
    const { site, dice, signal } = this.#storm;
    const keepOne = async (recipient: Recipient, socket: number) => {
      const own = dice.fork(`socket ${socket} of recipient ${recipient.index}`);
      do {
        await this.#connect(recipient, site.anyOrigin(own));
      } while (await pause(own.between(SHORTEST_RECONNECT_MS, LONGEST_RECONNECT_MS), signal));
    };
    await Promise.all(
      this.#truth.recipients.flatMap((recipient) =>
        Array.from({ length: socketCount(recipient) }, (_, i) => keepOne(recipient, i)),
      ),
    );
  }

  async #connect(recipient: Recipient, origin: string): Promise<void> {
    const { findings, signal } = this.#storm;
    const socket = new TestSocket(origin);
    socket.connection.on('error', () => undefined);
    const leave = () => socket.connection.terminate();
    signal.addEventListener('abort', leave);
    const ended = socket.closed().then(() => null);
    const next = () => Promise.race([socket.next(), ended]);
    const session: Session = { recipient, openedAtMs: 0, closedAtMs: null, updates: new Map() };
    for (let message = await next(); message !== null; message = await next()) {
      if (message.type === 'challenge') {
        const answer = recipient.wallet.at(origin).sign('', 'GET', message.payload);
        socket.send('challenge-response', answer);
      } else if (message.type === 'challenge-success') {
        session.openedAtMs = Date.now();
        this.sessions.push(session);
      } else if (message.type === 'update') {
        this.#receive(session, message.payload.quoteId);
      } else {
        findings.note('dialect', `a quote socket received ${JSON.stringify(message)}`);
      }
    }
    session.closedAtMs = Date.now();
    signal.removeEventListener('abort', leave);
  }

  #receive({ recipient, updates }: Session, quoteId: string): void {
    updates.set(quoteId, (updates.get(quoteId) ?? 0) + 1);
    const payment = this.#truth.payment(quoteId);
    if (payment?.invoice.recipient !== recipient) {
      const what = payment === undefined ? 'an unpaid quote' : describePayment(payment);
      this.#storm.findings.note('notEarly', `recipient ${recipient.index} got ${what}`);
    }
  }
}

/** Every fourth recipient has two sockets, every fourth has one. */
function socketCount({ index }: Recipient): number {
  return [2, 0, 1, 0][index % 4] ?? 0;
}
