import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { Dice } from '../../../demo/test-mint/dice.ts';

import { framingCase, SOCKET_PATH, socketCase } from './hostile-bytes.ts';
import { requestCase, type Surroundings } from './hostile-requests.ts';
import { type Expectation, messageProblems, problemsOf } from './judge.ts';
import { RawConnection } from './raw-connection.ts';

export interface StormResult {
  /** Requests and socket messages. */
  sent: number;
  /** How often each status was returned; `none`: no response, and none was required. */
  statuses: ReadonlyMap<number | 'none', number>;
  /** Each problem, with examples of what was sent. */
  problems: ReadonlyMap<string, string[]>;
}

/** Concurrent clients, each on a connection of its own. */
const LANES = 64;

/** A socket sends about seven messages, each of which counts. */
const SOCKET_SHARE = 0.035;
const FRAMING_SHARE = 0.1;

const ANSWER_TIMEOUT_MS = 15_000;

/** How long to wait for a response that is not required before closing. */
const QUIET_MS = 150;

const MAX_EXAMPLES = 3;
const EXAMPLE_LENGTH = 300;

/** Broken framing does not show which endpoint is meant, and what follows may be read as anything. */
const ANY_ANSWER: Expectation = {
  speech: null,
  statuses: [200, 400, 401, 404, 408, 413, 431],
  isUnreadable: true,
  isHead: false,
  marker: 'no marker',
};

/** All of 127.0.0.0/8 is this machine; each lane uses another address. */
const laneAddress = (lane: number) => `127.0.0.${2 + (lane % 250)}`;

/**
 * Sends seeded requests and socket messages, many at a time, and checks every response.
 *
 * @param options.count requests and socket messages together
 */
export async function runStorm(options: {
  seed: string;
  port: number;
  count: number;
  around: Surroundings;
}): Promise<StormResult> {
  const { port, count, around } = options;
  const stormDice = new Dice(options.seed);
  const statuses = new Map<number | 'none', number>();
  const problems = new Map<string, string[]>();
  let sent = 0;
  let cases = 0;
  await Promise.all(Array.from({ length: LANES }, (_unused, lane) => runLane(lane)));
  return { sent, statuses, problems };

  async function runLane(lane: number): Promise<void> {
    const address = laneAddress(lane);
    let kept: RawConnection | null = null;
    while (sent < count) {
      cases += 1;
      const name = `case ${cases}`;
      const dice = stormDice.fork(name);
      const kind = dice.roll();
      if (kind < SOCKET_SHARE) {
        await runSocket(dice, address, name);
      } else if (kind < SOCKET_SHARE + FRAMING_SHARE) {
        await runFraming(dice, address, name);
      } else {
        const connection: RawConnection = kept ?? (await RawConnection.open(port, address));
        kept = (await runRequest(dice, connection, name)) ? connection : null;
        if (kept === null) {
          connection.destroy();
        }
      }
    }
    kept?.destroy();
  }

  /** @returns whether the connection can be used again */
  async function runRequest(dice: Dice, connection: RawConnection, name: string): Promise<boolean> {
    const { bytes, expected, isHuge, isLast } = requestCase(dice, around);
    sent += 1;
    connection.write(bytes);
    try {
      const answer = await connection.answer(expected.isHead, ANSWER_TIMEOUT_MS);
      if (typeof answer === 'string') {
        tally('none');
        if (answer === 'silence' || !isHuge) {
          note(`no response (${answer})`, name, bytes);
        }
        return false;
      }
      tally(answer.status);
      for (const problem of problemsOf(answer, expected)) {
        note(problem, name, bytes);
      }
      const isOver = answer.headers.get('connection') === 'close' || connection.isClosed;
      return !(isOver || isHuge || isLast);
    } catch (error) {
      note((error as Error).message, name, bytes);
      return false;
    }
  }

  async function runFraming(dice: Dice, address: string, name: string): Promise<void> {
    const { bytes, mustBeAnswered, hangsUp } = framingCase(dice);
    const connection = await RawConnection.open(port, address);
    sent += 1;
    connection.write(bytes);
    try {
      if (!hangsUp) {
        await readFraming(connection, mustBeAnswered, (problem) => note(problem, name, bytes));
      }
    } catch (error) {
      note((error as Error).message, name, bytes);
    }
    connection.destroy();
  }

  /** Reads all responses, closes the sending half, and waits until the server closes too. */
  async function readFraming(
    connection: RawConnection,
    mustBeAnswered: boolean,
    note: (problem: string) => void,
  ): Promise<void> {
    let answers = 0;
    for (let hasEnded = false; ; ) {
      const isAwaited = hasEnded || (mustBeAnswered && answers === 0);
      const answer = await connection.answer(false, isAwaited ? ANSWER_TIMEOUT_MS : QUIET_MS);
      if (answer === 'closed') {
        break;
      }
      if (answer === 'silence') {
        if (isAwaited) {
          note(hasEnded ? 'connection kept open after its end' : 'no response in time');
          return;
        }
        hasEnded = true;
        connection.end();
      } else {
        answers += 1;
        tally(answer.status);
        problemsOf(answer, ANY_ANSWER).forEach(note);
      }
    }
    if (answers === 0) {
      tally('none');
    }
    if ((answers === 0 && mustBeAnswered) || connection.hasRest) {
      note('closed before its response');
    }
  }

  async function runSocket(dice: Dice, address: string, name: string): Promise<void> {
    const stranger = dice.pick(around.strangers);
    const { signsIn, frames, isBroken, marker } = socketCase(dice, stranger);
    const bytes = Buffer.concat(frames);
    const noteHere = (problem: string) => note(`socket: ${problem}`, name, bytes);
    sent += frames.length;
    const connection = connect({ host: '127.0.0.1', port, localAddress: address });
    const socket = new WebSocket(`ws://127.0.0.1:${port}${SOCKET_PATH}`, {
      createConnection: () => connection,
    });
    socket.on('error', () => undefined);
    const types: string[] = [];
    socket.on('message', (data) => {
      messageProblems(String(data), marker).forEach(noteHere);
      types.push(JSON.parse(String(data)).type);
    });
    const closed = once(socket, 'close').then(([code]) => Number(code));
    const until = async (type: string) => {
      while (!types.includes(type)) {
        const late = delay(ANSWER_TIMEOUT_MS, 'late', { ref: false });
        const waited = await Promise.race([once(socket, 'message'), closed, late]);
        if (waited === 'late' || typeof waited === 'number') {
          throw new Error(`${waited === 'late' ? 'silence' : `closed (${waited})`}, not ${type}`);
        }
      }
      types.length = 0;
    };
    try {
      await until('challenge');
      if (signsIn) {
        const payload = stranger.wallet.sign(SOCKET_PATH);
        socket.send(JSON.stringify({ type: 'challenge-response', payload }));
        await until('challenge-success');
      }
      connection.write(bytes);
      if (!isBroken) {
        socket.send('{"type":"ping"}');
        await until('pong');
        socket.close();
      }
      if ((await Promise.race([closed, delay(ANSWER_TIMEOUT_MS, null, { ref: false })])) === null) {
        noteHere('kept open');
      }
    } catch (error) {
      noteHere((error as Error).message);
    } finally {
      socket.terminate();
    }
  }

  function tally(status: number | 'none'): void {
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }

  function note(problem: string, name: string, bytes: Buffer): void {
    const examples = problems.get(problem) ?? [];
    problems.set(problem, examples);
    if (examples.length < MAX_EXAMPLES) {
      const start = JSON.stringify(bytes.subarray(0, EXAMPLE_LENGTH).toString('latin1'));
      examples.push(`${name}, ${bytes.length} bytes: ${start}`);
    }
  }
}
