import { connect } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

/** What is asked of a server: standard input. */
export interface LoadPlan {
  /** Without a slash at the end. */
  url: string;
  /** Each has one request under way at a time. */
  connections: number;
  /** Dealt out among the connections; each sends its own over and over. */
  requests: { path: string; headers: Record<string, string> }[];
  /** Text that every answer must hold. */
  expect: string;
  /** Whether it looks for answers all the time, rather than sleep until one comes: it then takes a core. */
  staysAwake: boolean;
  warmUpSeconds: number;
  seconds: number;
}

/** The second line of standard output; the first is `"warm"`, as the measuring begins. */
export interface LoadResult {
  seconds: number;
  /** The share of the time in which it did not wait for an answer. */
  busy: number;
  /** Answers as they should be. */
  right: number;
  /** Other answers, and connections that were lost, those of the warm-up too; and silent ones at the end. */
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
}

const OK = Buffer.from('HTTP/1.1 200 ');
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const LENGTH = /\r\ncontent-length: (\d+)/i;

/** A connection that had no answer for so long at the end, or in all of a shorter run, got stuck. */
const STUCK_MS = 1_000;

/** A server that answers less often than that has stopped doing so. */
const SILENCE_MS = 20_000;

/**
 * Asks as fast as it is answered, and looks at every answer. It speaks HTTP no more than it has to: a
 * client that costs as much for an answer as the server would be what is measured, where both have a core.
 *
 * Asleep, it has to be woken by the system within the server's own write, for as much as all else that a bare
 * server does: the slower a server, the more often it would pay for that.
 */

const plan = (await json(process.stdin)) as LoadPlan;
const { hostname, port, host } = new URL(plan.url);
const expected = Buffer.from(plan.expect);
let right = 0;
let wrong = 0;
let firstWrong: string | null = null;
/** Pieces of answers. */
let heard = 0;
/** Of turns of the event loop in which nothing was heard. */
let idleMs = 0;
/** When each connection had its last answer (`performance.now()`), or was opened. */
const answeredAt: number[] = [];

const requests = plan.requests.map(writeRequest);
for (let own = 0; own < plan.connections; own += 1) {
  openConnection(
    own,
    requests.filter((_, index) => index % plan.connections === own),
  );
}

if (plan.staysAwake) {
  stayAwake();
}
await delay(plan.warmUpSeconds * 1000);
right = 0;
idleMs = 0;
const startedAt = performance.now();
const startedWith = performance.eventLoopUtilization();
say('warm');
await delay(plan.seconds * 1000);
const endedAt = performance.now();
const seconds = (endedAt - startedAt) / 1000;
const busy = plan.staysAwake
  ? Math.max(0, 1 - idleMs / (endedAt - startedAt))
  : performance.eventLoopUtilization(startedWith).utilization;
for (const at of answeredAt) {
  if (endedAt - at > Math.min(STUCK_MS, plan.seconds * 1000)) {
    countWrong('a connection had no answer in the end');
  }
}
say({ seconds, busy, right, wrong, firstWrong });

function writeRequest({ path, headers }: LoadPlan['requests'][number]): Buffer {
  const lines = Object.entries({ host, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
}

/** Sends its requests one after another, each once the one before was answered. */
function openConnection(connection: number, own: readonly Buffer[]): void {
  answeredAt[connection] = performance.now();
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let sent = 0;
  let received: Buffer = Buffer.alloc(0);
  const sendNext = () => {
    socket.write(own[sent % own.length] ?? '');
    sent += 1;
  };
  socket.setTimeout(SILENCE_MS, () => socket.destroy(new Error('no answer')));
  socket.on('connect', sendNext);
  socket.on('data', (chunk: Buffer) => {
    heard += 1;
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const length = answerLength(received);
    if (length !== null && received.length >= length) {
      answeredAt[connection] = performance.now();
      judge(received);
      received = Buffer.alloc(0);
      sendNext();
    }
  });
  socket.on('error', (error) => countWrong(error.message));
  socket.on('end', () => countWrong('the server hung up'));
}

function stayAwake(): void {
  let heardBefore = heard;
  let turnedAt = performance.now();
  const turn = () => {
    const now = performance.now();
    if (heard === heardBefore) {
      idleMs += now - turnedAt;
    }
    heardBefore = heard;
    turnedAt = now;
    setImmediate(turn);
  };
  setImmediate(turn);
}

/** Of head and body; null until the head is there. Every answer to be measured says how long it is. */
function answerLength(received: Buffer): number | null {
  const headLength = received.indexOf(END_OF_HEAD);
  if (headLength < 0) {
    return null;
  }
  const [, bodyLength] = LENGTH.exec(received.toString('latin1', 0, headLength)) ?? [];
  // Without a length it ends here, and counts as a wrong one.
  return headLength + END_OF_HEAD.length + Number(bodyLength ?? 0);
}

function judge(answer: Buffer): void {
  if (answer.subarray(0, OK.length).equals(OK) && answer.includes(expected)) {
    right += 1;
  } else {
    countWrong(answer.toString());
  }
}

function countWrong(what: string): void {
  wrong += 1;
  firstWrong ??= what;
}

function say(message: 'warm' | LoadResult): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
