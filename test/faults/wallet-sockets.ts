import type { Dice } from '../../src/demo/test-mint/dice.ts';
import { TestSocket } from '../helpers/wallet.ts';
import { pause } from './client.ts';
import type { Findings } from './findings.ts';
import type { Site } from './site.ts';
import { describePayment, type Recipient, type Truth } from './truth.ts';

const SHORTEST_RECONNECT_MS = 100;
const LONGEST_RECONNECT_MS = 1_000;

/** One connection of a recipient's wallet, from its authentication to its end. */
export interface Session {
  recipient: Recipient;
  /** Of the process at its other end. */
  origin: string;
  /** Milliseconds since 1970; `closedAtMs` is null while it is open. */
  openedAtMs: number;
  closedAtMs: number | null;
  /** How many updates came, by quote. */
  updates: Map<string, number>;
}

/** The quote sockets of the recipients' wallets: they reconnect whenever they are cut. */
export class WalletSockets {
  readonly sessions: Session[] = [];
  readonly #site: Site;
  readonly #truth: Truth;
  readonly #findings: Findings;
  readonly #onUpdate: (recipient: Recipient) => void;
  #updateCount = 0;

  constructor(parts: {
    site: Site;
    truth: Truth;
    findings: Findings;
    /** Told that a recipient's list has changed, as a wallet is. */
    onUpdate: (recipient: Recipient) => void;
  }) {
    this.#site = parts.site;
    this.#truth = parts.truth;
    this.#findings = parts.findings;
    this.#onUpdate = parts.onUpdate;
  }

  get updateCount(): number {
    return this.#updateCount;
  }

  /** Keeps the sockets of the wallets open, to whichever process is up, until the signal. */
  async keepOpen(dice: Dice, signal: AbortSignal): Promise<void> {
    const keepOne = async (recipient: Recipient, socket: number) => {
      const own = dice.fork(`socket ${socket} of recipient ${recipient.index}`);
      do {
        await this.#connect(recipient, this.#site.anyOrigin(own), signal);
      } while (await pause(own.between(SHORTEST_RECONNECT_MS, LONGEST_RECONNECT_MS), signal));
    };
    await Promise.all(
      this.#truth.recipients.flatMap((recipient) =>
        Array.from({ length: socketCount(recipient) }, (_, i) => keepOne(recipient, i)),
      ),
    );
  }

  async #connect(recipient: Recipient, origin: string, signal: AbortSignal): Promise<void> {
    const wallet = recipient.wallet.at(origin);
    const socket = new TestSocket(origin);
    // A refused connection closes too, and that says enough.
    socket.connection.on('error', () => undefined);
    const leave = () => socket.connection.terminate();
    signal.addEventListener('abort', leave);
    const ended = socket.closed().then(() => null);
    const next = () => Promise.race([socket.next(), ended]);
    const session: Session = {
      recipient,
      origin,
      openedAtMs: 0,
      closedAtMs: null,
      updates: new Map(),
    };
    for (let message = await next(); message !== null; message = await next()) {
      switch (message.type) {
        case 'challenge':
          socket.send('challenge-response', wallet.sign('', 'GET', message.payload));
          break;
        case 'challenge-success':
          session.openedAtMs = Date.now();
          this.sessions.push(session);
          break;
        case 'update':
          this.#take(session, message.payload.quoteId);
          break;
        default:
          this.#findings.note('dialect', `a wallet's socket said ${JSON.stringify(message)}`);
      }
    }
    session.closedAtMs = Date.now();
    signal.removeEventListener('abort', leave);
  }

  #take(session: Session, quoteId: string): void {
    this.#updateCount += 1;
    session.updates.set(quoteId, (session.updates.get(quoteId) ?? 0) + 1);
    const payment = this.#truth.payment(quoteId);
    if (payment === undefined) {
      const { index } = session.recipient;
      this.#findings.note(
        'notEarly',
        `recipient ${index} was told of a quote that nobody has paid`,
      );
    } else if (payment.invoice.recipient !== session.recipient) {
      const { index } = session.recipient;
      this.#findings.note('notEarly', `recipient ${index} was told of ${describePayment(payment)}`);
    } else {
      this.#onUpdate(session.recipient);
    }
  }
}

/** Every fourth recipient has two wallets that listen, every fourth has one. */
function socketCount({ index }: Recipient): number {
  return [2, 0, 1, 0][index % 4] ?? 0;
}
