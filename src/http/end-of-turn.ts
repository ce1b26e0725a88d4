/**
 * So many are not kept waiting: a turn ends behind all I/O that is ready, and of thousands of connections the first would
 * wait for the last.
 */
const MOST_WAITING = 64;

let waiting: (() => void)[] = [];
let isEnding = false;

/**
 * Puts a task off to the end of this turn of the event loop, where those of all requests are done one after another.
 * What is put off there, by what the tasks let go on, is done before the next turn, too.
 *
 * It is for what fills the processor's caches, as the check of a signature does with its tables and a write with the
 * system's network: done within each request, it would find them filled with the rest of a request, and the rest with
 * its own, again and again.
 *
 * @param task must not throw: others wait behind it
 */
export function atEndOfTurn(task: () => void): void {
  const count = waiting.push(task);
  if (count === MOST_WAITING) {
    doWaiting();
  } else if (count === 1 && !isEnding) {
    setImmediate(end);
  }
}

function end(): void {
  isEnding = true;
  doWaiting();
  // Behind all promises, those that are made meanwhile as well.
  queueMicrotask(() => process.nextTick(endLast));
}

function endLast(): void {
  isEnding = false;
  doWaiting();
}

function doWaiting(): void {
  const tasks = waiting;
  waiting = [];
  for (const task of tasks) {
    task();
  }
}
