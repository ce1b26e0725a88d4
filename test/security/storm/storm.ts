import { Dice } from '../../../src/demo/test-mint/dice.ts';
import { framingCase } from './framing-cases.ts';
import { messageProblems, problemsOf } from './judge.ts';
import { RawConnection } from './raw-connection.ts';
import { requestCase, type Surroundings } from './request-cases.ts';
import { frame, OPCODE, SOCKET_PATH, socketCase } from './socket-cases.ts';

/** What came of a storm. */
export interface StormResult {
  requests: number;
  messages: number;
  /** How often each status was answered; `none`: nothing was, and nothing had to be. */
  statuses: ReadonlyMap<number | 'none', number>;
  /** How often quote sockets were closed with each code; `none`: without one. */
  closeCodes: ReadonlyMap<number | 'none', number>;
  /** What was wrong, and examples of what was sent. */
  problems: ReadonlyMap<string, string[]>;
}

/** So many strangers at once, each on a connection of their own. */
const LANES = 64;

/** What a storm is made of. A socket has some seven messages, each of which counts for itself. */
const SOCKET_SHARE = 0.035;
const FRAMING_SHARE = 0.1;

/** An answer that takes longer has been forgotten. */
const ANSWER_TIMEOUT_MS = 15_000;

/** Bytes that need no answer, and have had none for so long, get none before we hang up. */
const QUIET_MS = 150;

const MAX_EXAMPLES = 3;
const EXAMPLE_LENGTH = 300;

/** All of 127.0.0.0/8 is this machine; each lane is a stranger from another address. */
const laneAddress = (lane: number) => `127.0.0.${2 + (lane % 250)}`;

/** Sends seeded requests and socket messages, many at a time, and judges every answer. */
export class Storm {
  readonly #dice: Dice;
  readonly #port: number;
  readonly #around: Surroundings;
  readonly #addressOf: (lane: number) => string;
  readonly #statuses = new Map<number | 'none', number>();
  readonly #closeCodes = new Map<number | 'none', number>();
  readonly #problems = new Map<string, string[]>();
  /** What was asked last on a connection, which may have left something behind. */
  readonly #lastCases = new WeakMap<RawConnection, string>();
  readonly #count: number;
  #requests = 0;
  #messages = 0;
  #cases = 0;

  /**
   * @param options.count requests and socket messages, together
   * @param options.addressOf whom the server takes a lane for; default: each for another
   */
  constructor(options: {
    seed: string;
    port: number;
    count: number;
    around: Surroundings;
    addressOf?: (lane: number) => string;
  }) {
    const { seed, port, count, around, addressOf = laneAddress } = options;
    this.#dice = new Dice(seed);
    this.#port = port;
    this.#around = around;
    this.#addressOf = addressOf;
    this.#count = count;
  }

  async run(): Promise<StormResult> {
    await Promise.all(Array.from({ length: LANES }, (_unused, lane) => this.#runLane(lane)));
    return {
      requests: this.#requests,
      messages: this.#messages,
      statuses: this.#statuses,
      closeCodes: this.#closeCodes,
      problems: this.#problems,
    };
  }

  async #runLane(lane: number): Promise<void> {
    const address = this.#addressOf(lane);
    let kept: RawConnection | null = null;
    while (this.#requests + this.#messages < this.#count) {
      this.#cases += 1;
      const name = `case ${this.#cases}`;
      const dice = this.#dice.fork(name);
      const kind = dice.roll();
      if (kind < SOCKET_SHARE) {
        await this.#runSocket(dice, address, name);
      } else if (kind < SOCKET_SHARE + FRAMING_SHARE) {
        await this.#runFraming(dice, address, name);
      } else {
        kept = await this.#runRequest(dice, kept ?? (await this.#connect(address)), name);
      }
    }
    kept?.destroy();
  }

  /** @returns the connection, where it may be used again */
  async #runRequest(
    dice: Dice,
    connection: RawConnection,
    name: string,
  ): Promise<RawConnection | null> {
    const { bytes, expected, isHuge, isLast } = requestCase(dice, this.#around);
    const note = (problem: string) =>
      this.#note(problem, `${name} behind ${this.#lastCases.get(connection) ?? 'nothing'}`, bytes);
    this.#requests += 1;
    connection.write(bytes);
    try {
      for (;;) {
        const answer = connection.takeAnswer(expected.isHead);
        if (answer !== null) {
          tally(this.#statuses, answer.status);
          for (const problem of problemsOf(answer, expected)) {
            note(problem);
          }
          const isOver = answer.headers.get('connection') === 'close' || connection.isClosed;
          if (isOver || isHuge || isLast) {
            connection.destroy();
            return null;
          }
          this.#lastCases.set(connection, name);
          return connection;
        }
        const waited = await connection.more(ANSWER_TIMEOUT_MS);
        if (waited !== 'data') {
          tally(this.#statuses, 'none');
          if (!isHuge || waited === 'silence') {
            note(waited === 'silence' ? 'no whole answer in time' : 'hung up before its answer');
          }
          connection.destroy();
          return null;
        }
      }
    } catch (error) {
      note((error as Error).message);
      connection.destroy();
      return null;
    }
  }

  async #runFraming(dice: Dice, address: string, name: string): Promise<void> {
    const { bytes, mustBeAnswered, hangsUp } = framingCase(dice);
    const note = (problem: string) => this.#note(problem, name, bytes);
    const connection = await this.#connect(address);
    this.#requests += 1;
    connection.write(bytes);
    if (hangsUp) {
      connection.destroy();
      return;
    }
    let answers = 0;
    let hasEnded = false;
    try {
      for (;;) {
        const answer = connection.takeAnswer(false);
        if (answer !== null) {
          answers += 1;
          tally(this.#statuses, answer.status);
          for (const problem of problemsOf(answer, this.#anyAnswer)) {
            note(problem);
          }
          continue;
        }
        const waited = await connection.more(hasEnded ? ANSWER_TIMEOUT_MS : QUIET_MS);
        if (waited === 'closed') {
          break;
        }
        if (waited === 'silence' && hasEnded) {
          note('kept open after its end');
          break;
        }
        if (waited === 'silence') {
          // A server that is busy may still be at it: only what must be answered is waited for.
          hasEnded = !mustBeAnswered || answers > 0;
          if (hasEnded) {
            connection.end();
          } else if ((await connection.more(ANSWER_TIMEOUT_MS)) === 'silence') {
            note('no whole answer in time');
            break;
          }
        }
      }
      if (answers === 0) {
        tally(this.#statuses, 'none');
      }
      if ((answers === 0 && mustBeAnswered) || connection.received.length > 0) {
        note('hung up before its answer');
      }
    } catch (error) {
      note((error as Error).message);
    }
    connection.destroy();
  }

  /** Framing does not say for whom it is, and what comes behind it may be read as anything. */
  get #anyAnswer() {
    return {
      speech: null,
      statuses: [200, 400, 401, 404, 408, 413, 431, ...(this.#around.isLimited ? [429] : [])],
      isUnreadable: true,
      isHead: false,
      marker: 'no marker',
    };
  }

  async #runSocket(dice: Dice, address: string, name: string): Promise<void> {
    const stranger = dice.pick(this.#around.strangers);
    const { signsIn, frames, isBroken, marker } = socketCase(dice, stranger);
    const sent = Buffer.concat(frames);
    const note = (problem: string) => this.#note(`socket: ${problem}`, name, sent);
    this.#messages += frames.length;
    const connection = await this.#connect(address);
    const talk = new SocketTalk(connection, (text) => {
      for (const problem of messageProblems(text, marker)) {
        note(problem);
      }
    });
    try {
      const isOpen = await talk.open();
      if (!isOpen) {
        if (!this.#around.isLimited) {
          note('the handshake was refused');
        }
        return;
      }
      await talk.until('challenge');
      if (signsIn) {
        const payload = stranger.authorization(SOCKET_PATH, 'GET');
        talk.say(frame(JSON.stringify({ type: 'challenge-response', payload })));
        await talk.until('challenge-success');
      }
      talk.say(sent);
      if (isBroken) {
        await talk.untilClosed();
      } else {
        talk.say(frame('{"type":"ping"}'));
        await talk.until('pong');
        talk.say(frame(Buffer.from([0x03, 0xe8]), { opcode: OPCODE.close }));
        await talk.untilClosed();
      }
      tally(this.#closeCodes, talk.closeCode ?? 'none');
    } catch (error) {
      tally(this.#closeCodes, talk.closeCode ?? 'none');
      const isLimit = this.#around.isLimited && talk.closeCode === 1008;
      if (!isLimit) {
        note((error as Error).message);
      }
    } finally {
      connection.destroy();
    }
  }

  #connect(address: string): Promise<RawConnection> {
    return RawConnection.open(this.#port, address);
  }

  #note(problem: string, name: string, sent: Buffer): void {
    const examples = this.#problems.get(problem) ?? [];
    this.#problems.set(problem, examples);
    if (examples.length < MAX_EXAMPLES) {
      const start = JSON.stringify(sent.subarray(0, EXAMPLE_LENGTH).toString('latin1'));
      examples.push(`${name}, ${sent.length} bytes: ${start}`);
    }
  }
}

function tally<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** What the server says on a quote socket, read frame by frame (RFC 6455 section 5.2). */
class SocketTalk {
  closeCode: number | null = null;
  readonly #connection: RawConnection;
  readonly #onText: (text: string) => void;

  constructor(connection: RawConnection, onText: (text: string) => void) {
    this.#connection = connection;
    this.#onText = onText;
  }

  /** Shakes hands. @returns whether the server did too */
  async open(): Promise<boolean> {
    const request =
      `GET ${SOCKET_PATH} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
    this.#connection.write(Buffer.from(request));
    for (;;) {
      const answer = this.#connection.takeAnswer(false);
      if (answer !== null) {
        return answer.status === 101;
      }
      if ((await this.#connection.more(ANSWER_TIMEOUT_MS)) !== 'data') {
        throw new Error('the handshake was not answered');
      }
    }
  }

  say(bytes: Buffer): void {
    this.#connection.write(bytes);
  }

  /** Reads on until a message of this type. @throws where none comes */
  async until(type: string): Promise<void> {
    for (;;) {
      const text = await this.#nextText();
      if (text === null) {
        throw new Error(`closed (${this.closeCode ?? 'no code'}) instead of ${type}`);
      }
      if ((JSON.parse(text) as { type: string }).type === type) {
        return;
      }
    }
  }

  /** Reads on to the end. @throws where it is kept open */
  async untilClosed(): Promise<void> {
    while ((await this.#nextText()) !== null) {
      // Each was looked at when it came.
    }
  }

  /** The next message; null: the server hung up. */
  async #nextText(): Promise<string | null> {
    for (;;) {
      const [opcode, payload] = this.#takeFrame() ?? [];
      if (opcode === OPCODE.text && payload !== undefined) {
        const text = payload.toString('utf8');
        this.#onText(text);
        return text;
      }
      if (opcode === OPCODE.close && payload !== undefined) {
        this.closeCode = payload.length >= 2 ? payload.readUInt16BE() : null;
        // The closing handshake is over when we have answered it, or hung up.
        this.#connection.end();
      } else if (opcode === undefined) {
        const waited = await this.#connection.more(ANSWER_TIMEOUT_MS);
        if (waited === 'closed' && this.#connection.received.length === 0) {
          return null;
        }
        if (waited !== 'data') {
          throw new Error(waited === 'silence' ? 'kept open in silence' : 'closed within a frame');
        }
      }
    }
  }

  /** Opcode and payload; null where no whole frame has come. */
  #takeFrame(): [number, Buffer] | null {
    const { received } = this.#connection;
    if (received.length < 2) {
      return null;
    }
    const [first = 0, second = 0] = received;
    if ((first & 0xf0) !== 0x80 || second > 126) {
      throw new Error('a frame that the server should not send');
    }
    const headLength = second === 126 ? 4 : 2;
    const length = second === 126 ? received.readUInt16BE(2) : second;
    if (received.length < headLength + length) {
      return null;
    }
    this.#connection.take(headLength);
    return [first & 0x0f, this.#connection.take(length)];
  }
}
