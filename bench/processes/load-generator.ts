import { connect } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type LoadPlan, type LoadRequest, type LoadResult, TURN } from './load-plan.ts';

const OK = Buffer.from('HTTP/1.1 200 ');
const END_OF_HEAD = Buffer.from('\r\n\r\n');
const LENGTH = /\r\ncontent-length: (\d+)/i;

/** A connection that has had no answer so long after the end got stuck. */
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
let right = 0;
let wrong = 0;
let firstWrong: string | null = null;
/** Pieces of answers. */
let heard = 0;
/** Of turns of the event loop in which nothing was heard. */
let idleMs = 0;
/** Those that rest: each asks for its next when it is called. */
const resting: (() => void)[] = [];
let isAsking = true;
/** Until what it asked is answered, too. */
let isAtWork = true;
let isAwake = false;
let onRest: () => void = () => {};

const requests = plan.requests.map(prepare);
for (let own = 0; own < plan.connections; own += 1) {
  openConnection(requests.filter((_, index) => index % plan.connections === own));
}

stayAwake();
await delay(plan.warmUpSeconds * 1000);
isAsking = false;
isAtWork = false;
process.on('message', (message) => {
  if (message === TURN) {
    void takeTurn();
  }
});
say('warm');

/** Ends when what it asked is answered, so that nothing is left of it for the turn of another server. */
async function takeTurn(): Promise<void> {
  isAsking = true;
  isAtWork = true;
  idleMs = 0;
  const rightBefore = right;
  const startedAt = performance.now();
  const startedWith = performance.eventLoopUtilization();
  for (const askNext of resting.splice(0)) {
    askNext();
  }
  stayAwake();
  await delay(plan.seconds * 1000);
  isAsking = false;
  await Promise.race([allRest(), delay(STUCK_MS)]);
  const endedAt = performance.now();
  isAtWork = false;
  const busy = plan.staysAwake
    ? Math.max(0, 1 - idleMs / (endedAt - startedAt))
    : performance.eventLoopUtilization(startedWith).utilization;
  for (let stuck = resting.length; stuck < plan.connections; stuck += 1) {
    countWrong('a connection had no answer in the end');
  }
  say({
    seconds: (endedAt - startedAt) / 1000,
    busy,
    right: right - rightBefore,
    rightInAll: right,
    wrong,
    firstWrong,
  });
}

function allRest(): Promise<void> {
  return new Promise((resolve) => {
    onRest = () => resting.length === plan.connections && resolve();
    onRest();
  });
}

/** A request as it is sent, and what is looked for in its answer. */
interface PreparedRequest {
  bytes: Buffer;
  expected: Buffer;
}

function prepare({ path, headers, expect }: LoadRequest): PreparedRequest {
  const lines = Object.entries({ host, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const bytes = Buffer.from(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  return { bytes, expected: Buffer.from(expect) };
}

/** Sends its requests one after another, each once the one before was answered, and rests between turns. */
function openConnection(own: readonly PreparedRequest[]): void {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  let sent = 0;
  let asked = own[0];
  let received: Buffer = Buffer.alloc(0);
  const askNext = () => {
    asked = own[sent % own.length];
    socket.write(asked?.bytes ?? '');
    sent += 1;
  };
  socket.setTimeout(SILENCE_MS, () => socket.destroy(new Error('no answer')));
  socket.on('connect', askNext);
  socket.on('data', (chunk: Buffer) => {
    heard += 1;
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    const length = answerLength(received);
    if (length !== null && received.length >= length) {
      judge(received, asked);
      received = Buffer.alloc(0);
      if (isAsking) {
        askNext();
      } else {
        resting.push(askNext);
        onRest();
      }
    }
  });
  socket.on('error', (error) => countWrong(error.message));
  socket.on('end', () => countWrong('the server hung up'));
}

/** Until it rests, where it is to. A turn may begin before it has noticed that it rested. */
function stayAwake(): void {
  if (!plan.staysAwake || isAwake) {
    return;
  }
  isAwake = true;
  let heardBefore = heard;
  let turnedAt = performance.now();
  const turn = () => {
    const now = performance.now();
    if (heard === heardBefore) {
      idleMs += now - turnedAt;
    }
    heardBefore = heard;
    turnedAt = now;
    isAwake = isAtWork;
    if (isAwake) {
      setImmediate(turn);
    }
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

function judge(answer: Buffer, asked: PreparedRequest | undefined): void {
  if (answer.subarray(0, OK.length).equals(OK) && answer.includes(asked?.expected ?? '')) {
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
