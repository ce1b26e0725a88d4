import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Dice } from '../../../demo/test-mint/dice.ts';
import { expectDescribed } from '../../helpers/api-description.ts';
import { frame, RawSocket } from '../../helpers/raw-socket.ts';
import { framingCase, SOCKET_PATH, socketCase } from './hostile-bytes.ts';
import { type RequestCase, requestCase, type Surroundings } from './hostile-requests.ts';

/** What a storm found. */
export interface StormResult {
  /** Requests and socket messages. */
  sent: number;
  /** How often each status was returned. */
  statuses: ReadonlyMap<number, number>;
  /** Examples of what was sent, by problem. */
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
const ANY_ANSWER: Omit<RequestCase, 'bytes'> = {
  method: 'GET',
  target: '',
  dialect: null,
  statuses: [200, 400, 401, 404, 408, 413, 431],
  isPaying: false,
  isUnreadable: true,
  isHuge: false,
  marker: 'no marker',
};

/** Text that reveals internals of the service. */
const INTERNALS =
  /node_modules|\.(ts|js|cjs|mjs):\d|\n\s+at |\bat [\w.]+ \(|select .* from|insert into|FST_|ERR_|HPE_|ECONN|ENOTFOUND|EAI_|sqlite|postgres|kysely|fastify|zod|file:\/\/|\/(home|usr|work|tmp|src|app)\/|<html|undefined|\[object/i;

/** The types of messages of the quote socket (spec.md section 6). */
const MESSAGE_TYPES = ['challenge', 'challenge-success', 'update', 'pong', 'error'];

/**
 * Sends seeded requests and socket messages, many at a time, and checks every response against spec.md
 * sections 1, 4, 6 and 7.
 *
 * @param options.count requests and socket messages together
 */
export async function runStorm(options: {
  seed: string;
  origin: string;
  count: number;
  around: Surroundings;
}): Promise<StormResult> {
  const { origin, count, around } = options;
  const stormDice = new Dice(options.seed);
  const statuses = new Map<number, number>();
  const problems = new Map<string, string[]>();
  let sent = 0;
  let cases = 0;
  await Promise.all(Array.from({ length: LANES }, runLane));
  return { sent, statuses, problems };

  async function runLane(): Promise<void> {
    while (sent < count) {
      cases += 1;
      const name = `case ${cases}`;
      const dice = stormDice.fork(name);
      const kind = dice.roll();
      if (kind < SOCKET_SHARE) {
        await runSocket(dice, name);
      } else if (kind < SOCKET_SHARE + FRAMING_SHARE) {
        const { bytes, mustBeAnswered } = framingCase(dice);
        await runRequest(name, { ...ANY_ANSWER, bytes }, mustBeAnswered);
      } else {
        const request = requestCase(dice, around);
        await runRequest(name, request, !request.isHuge);
      }
    }
  }

  async function runRequest(
    name: string,
    request: RequestCase,
    mustBeAnswered: boolean,
  ): Promise<void> {
    sent += 1;
    const { received, isClosed } = await exchange(origin, request.bytes, mustBeAnswered);
    const { answers, rest } = parseAnswers(received, request.method === 'HEAD');
    const found = answers.flatMap((answer) => problemsOf(answer, request));
    for (const { status } of answers) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    note(name, request.bytes, [
      ...found,
      ...(isClosed ? [] : ['connection kept open after its end']),
      ...(mustBeAnswered && answers.length === 0 ? ['no response'] : []),
      ...(rest === '' || request.method === 'HEAD'
        ? []
        : [`not a whole response: ${JSON.stringify(rest.slice(0, 80))}`]),
    ]);
  }

  async function runSocket(dice: Dice, name: string): Promise<void> {
    const stranger = dice.pick(around.strangers);
    const { signsIn, frames, isBroken, marker } = socketCase(dice, stranger);
    const bytes = Buffer.concat(frames);
    sent += frames.length;
    const raw = await RawSocket.connect(origin);
    const talk = async () => {
      await raw.receive('"challenge"');
      if (signsIn) {
        await raw.signIn(stranger.wallet.sign(SOCKET_PATH));
      }
      raw.send(bytes);
      if (!isBroken) {
        raw.send(frame('{"type":"ping"}'));
        await raw.receive('"pong"');
        raw.connection.end();
      }
      await raw.gone();
      return true;
    };
    const over = talk().catch(() => false);
    const isOver = await Promise.race([over, delay(ANSWER_TIMEOUT_MS, false, { ref: false })]);
    raw.connection.destroy();
    const types = [...raw.received.matchAll(/\{"type":"([^"]*)"/g)].map(([, type = '']) => type);
    const unknown = types.filter((type) => !MESSAGE_TYPES.includes(type));
    note(name, bytes, [
      ...unknown.map((type) => `an unknown message: ${type}`),
      ...(isOver ? [] : ['a socket was kept open, or did not answer']),
      ...leaks(raw.received, marker),
    ]);
  }

  function note(name: string, bytes: Buffer, found: readonly string[]): void {
    for (const problem of found) {
      const examples = problems.get(problem) ?? [];
      problems.set(problem, examples);
      if (examples.length < MAX_EXAMPLES) {
        const start = JSON.stringify(bytes.subarray(0, EXAMPLE_LENGTH).toString('latin1'));
        examples.push(`${name}, ${bytes.length} bytes: ${start}`);
      }
    }
  }
}

/**
 * Sends bytes on a connection of their own, closes the sending half when nothing more comes, and waits
 * until the server closes too.
 */
async function exchange(
  origin: string,
  bytes: Buffer,
  mustBeAnswered: boolean,
): Promise<{ received: string; isClosed: boolean }> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  // The server may reset the connection at any moment; 'close' follows.
  socket.on('error', () => undefined);
  const chunks: Buffer[] = [];
  const ended = new Promise<boolean>((resolve) => socket.once('close', () => resolve(true)));
  let quiet = setTimeout(() => socket.end(), mustBeAnswered ? ANSWER_TIMEOUT_MS : QUIET_MS);
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    clearTimeout(quiet);
    quiet = setTimeout(() => socket.end(), QUIET_MS);
  });
  await once(socket, 'connect');
  socket.write(bytes);
  const late = delay(2 * ANSWER_TIMEOUT_MS, false, { ref: false });
  const isClosed = await Promise.race([ended, late]);
  clearTimeout(quiet);
  socket.destroy();
  return { received: Buffer.concat(chunks).toString('latin1'), isClosed };
}

/** An HTTP response as it came over the wire. */
interface RawAnswer {
  status: number;
  headers: Headers;
  body: string;
}

/** Parses responses, one after another. Each must have a known length. */
function parseAnswers(text: string, isHead: boolean): { answers: RawAnswer[]; rest: string } {
  const answers: RawAnswer[] = [];
  let rest = text;
  for (;;) {
    const [, code, lines = ''] =
      /^HTTP\/1\.1 (\d{3})[^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? [];
    if (code === undefined) {
      return { answers, rest };
    }
    const pairs = lines.split('\r\n').filter((line) => line !== '');
    const headers = new Headers(pairs.map((line) => line.split(': ', 2) as [string, string]));
    const status = Number(code);
    const isBodiless = isHead || status < 200 || status === 204;
    const length = isBodiless ? 0 : Number(headers.get('content-length') ?? Number.NaN);
    const start = rest.indexOf('\r\n\r\n') + 4;
    if (Number.isNaN(length) || rest.length < start + length) {
      return { answers, rest };
    }
    // Interim responses, such as 100 Continue, precede the final one.
    if (status >= 200) {
      const body = Buffer.from(rest.slice(start, start + length), 'latin1').toString();
      answers.push({ status, headers, body });
    }
    rest = rest.slice(start + length);
  }
}

/** Returns the problems of a response; none if it is acceptable. */
function problemsOf(answer: RawAnswer, request: Omit<RequestCase, 'bytes'>): string[] {
  const { status, headers, body } = answer;
  const isBodiless = request.method === 'HEAD' || status === 204;
  const retries = /^[1-9]\d*$/.test(headers.get('retry-after') ?? '');
  const isExpected =
    request.statuses.includes(status) ||
    (request.isUnreadable && status === 400) ||
    (request.isPaying && status === 500 && retries);
  const checks: [isRight: boolean, problem: string][] = [
    [isExpected, `status ${status}`],
    [headers.get('access-control-allow-origin') === '*', `${status} without the CORS header`],
    [
      status === 204 || /^application\/json\b/.test(headers.get('content-type') ?? ''),
      `${status} of type ${headers.get('content-type')}`,
    ],
    [
      /^creqA/.test(headers.get('x-cashu') ?? '') === (status === 402),
      `${status} with X-Cashu '${headers.get('x-cashu')}'`,
    ],
    [isBodiless || hasFormat(answer, request), `${status} not in the format ${request.dialect}`],
  ];
  const text = `${[...headers.values()].join('\n')}\n${isBodiless ? '' : body}`;
  return [
    ...checks.filter(([isRight]) => !isRight).map(([, problem]) => problem),
    ...leaks(text, request.marker),
  ];
}

/** Whether a body is an error in the format of its endpoint, or a success as described. */
function hasFormat(answer: RawAnswer, request: Omit<RequestCase, 'bytes'>): boolean {
  const { dialect, method, target, isUnreadable } = request;
  const body = parseObject(answer.body);
  const isApiError = body['error'] === true && isText(body['message']);
  const isLnurlError = body['status'] === 'ERROR' && isText(body['reason']);
  if (!isApiError && !isLnurlError) {
    const isError = answer.status >= 300 || Object.keys(body).length === 0;
    return !isError && isDescribed(() => expectDescribed(method, target, { ...answer, body }));
  }
  const keys = Object.keys(body).sort().join();
  const isOfBoth = isApiError && isLnurlError && keys === 'error,message,reason,status';
  const isOfApi = keys === 'error,message' && dialect !== 'lnurl' && dialect !== 'verify';
  const isOfLnurl = keys === 'reason,status' && dialect !== 'api' && dialect !== 'nip05';
  return isOfApi || isOfLnurl || (isOfBoth && (isUnreadable || answer.status === 431));
}

function isDescribed(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}

function leaks(text: string, marker: string): string[] {
  // Base64 contains anything by chance.
  const shown = INTERNALS.exec(text.replace(/(eyJ|creqA)[\w.=-]+/g, ''))?.[0];
  return [
    ...(shown === undefined ? [] : [`reveals internals: ${JSON.stringify(shown)}`]),
    ...(text.includes(marker) ? ['echoes what the client sent'] : []),
  ];
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Returns an empty object if the text is no JSON object. */
function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
