import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { DatabaseSync } from 'node:sqlite';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import { SeededRandom } from '../../demo/test-mint/seeded-random.ts';
import { MachineClock } from './machine-clock.ts';
import { currentActor, type ScheduledEvent, Scheduler, WORLD } from './scheduler.ts';

// Replaces what makes two runs of a program differ: timers, clocks and random numbers. Must be the first module that the
// program imports, because others keep the functions that they find.

/** Where simulated time begins, in milliseconds since 1970. */
const EPOCH_MS = Date.UTC(2030, 0, 1);

/** What the replaced functions use. Each seed has its own. */
export const platform = {
  scheduler: new Scheduler(),
  random: new SeededRandom('platform'),
  /** The clock of the database's machine. */
  databaseClock: new MachineClock(),
};

/** The time by the clock of the running actor's machine, or by another clock. */
export function wallClockMs(clock = currentActor().clock): number {
  const { nowMs } = platform.scheduler;
  return Math.floor(EPOCH_MS + nowMs + clock.readOffsetMs(nowMs));
}

/** Converts virtual milliseconds to the time of a correct clock. */
export function toUnixSeconds(virtualMs: number): number {
  return Math.floor((EPOCH_MS + virtualMs) / 1_000);
}

/** What `setTimeout` and `setInterval` return. */
class VirtualTimer {
  #event: ScheduledEvent;
  readonly #callback: Callback;
  readonly #args: readonly unknown[];
  readonly #delayMs: number;
  readonly #repeats: boolean;

  constructor(
    callback: Callback,
    delayMs: number,
    repeats: boolean,
    args: readonly unknown[] = [],
  ) {
    this.#callback = callback;
    this.#args = args;
    this.#delayMs = delayMs >= 1 && delayMs < 2 ** 31 ? delayMs : 1;
    this.#repeats = repeats;
    this.#event = this.#schedule();
  }

  close(): this {
    platform.scheduler.cancel(this.#event);
    return this;
  }

  refresh(): this {
    this.close();
    this.#event = this.#schedule();
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #schedule(actor = currentActor()): ScheduledEvent {
    const fire = () => {
      if (this.#repeats) {
        this.#event = this.#schedule(actor);
      }
      this.#callback(...this.#args);
    };
    return platform.scheduler.schedule(this.#delayMs, fire, actor, this.#callback);
  }
}

type Callback = (...args: unknown[]) => void;

function createTimerFunction(repeats: boolean) {
  return (callback: Callback, delayMs = 1, ...args: unknown[]) =>
    new VirtualTimer(callback, Number(delayMs), repeats, args);
}

function clear(timer: unknown): void {
  if (timer instanceof VirtualTimer) {
    timer.close();
  }
}

const replacedTimers = {
  setTimeout: createTimerFunction(false),
  setInterval: createTimerFunction(true),
  setImmediate: (callback: Callback, ...args: unknown[]) =>
    platform.scheduler.schedule(0, () => callback(...args)),
  clearTimeout: clear,
  clearInterval: clear,
  clearImmediate: (event: ScheduledEvent) => platform.scheduler.cancel(event),
};

function sleep<T>(delayMs: number, value: T, { signal }: { signal?: AbortSignal } = {}) {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const abort = () => {
    timer.close();
    reject(new DOMException('This operation was aborted', 'AbortError'));
  };
  const timer = new VirtualTimer(
    () => {
      signal?.removeEventListener('abort', abort);
      resolve(value);
    },
    delayMs,
    false,
  );
  if (signal?.aborted) {
    abort();
  }
  signal?.addEventListener('abort', abort, { once: true });
  return promise;
}

class VirtualDate extends Date {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) {
      super(wallClockMs());
    } else {
      super(...args);
    }
  }

  static override now(): number {
    return wallClockMs();
  }
}

/** Replaces SQLite's own clock in each new connection. The first thing that the service's connections do is `exec`. */
function replaceDatabaseClock(): void {
  const replaced = new WeakSet<DatabaseSync>();
  const { exec } = DatabaseSync.prototype;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql) {
    if (!replaced.has(this)) {
      replaced.add(this);
      this.function('unixepoch', (_modifier) => wallClockMs(platform.databaseClock) / 1_000);
    }
    exec.call(this, sql);
  };
}

function fillRandom<T extends NodeJS.ArrayBufferView>(view: T): T {
  platform.random.fill(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  return view;
}

function randomBytes(size: number, callback?: (error: null, bytes: Buffer) => void): Buffer {
  const bytes = fillRandom(Buffer.alloc(size));
  if (callback !== undefined) {
    process.nextTick(callback, null, bytes);
  }
  return bytes;
}

function randomUuid(version: 4 | 7): string {
  const bytes = randomBytes(16);
  if (version === 7) {
    bytes.writeUIntBE(wallClockMs(), 0, 6);
  }
  bytes[6] = ((bytes[6] as number) & 0x0f) | (version << 4);
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

const replacedCrypto = {
  randomBytes,
  // Used by `ws` for masks, which it takes from a pool that several seeds share.
  randomFillSync: (bytes: Uint8Array) => bytes.fill(0),
  randomUUID: () => randomUuid(4),
  randomUUIDv7: () => randomUuid(7),
};

/** Without threads, so that it takes no real time. HMAC and AES-GCM are all that `jose` uses here. */
const replacedSubtle = {
  encrypt: async (algorithm: AesGcmParams, key: CryptoKey, data: Uint8Array) => {
    const cipher = crypto.createCipheriv(
      'aes-256-gcm',
      toKeyObject(key),
      algorithm.iv as Uint8Array,
    );
    cipher.setAAD(algorithm.additionalData as Uint8Array);
    return Buffer.concat([cipher.update(data), cipher.final(), cipher.getAuthTag()]);
  },
  decrypt: async (algorithm: AesGcmParams, key: CryptoKey, data: Uint8Array) => {
    const iv = algorithm.iv as Uint8Array;
    const decipher = crypto.createDecipheriv('aes-256-gcm', toKeyObject(key), iv);
    decipher.setAAD(algorithm.additionalData as Uint8Array).setAuthTag(data.subarray(-16));
    return Buffer.concat([decipher.update(data.subarray(0, -16)), decipher.final()]);
  },
  sign: async (_algorithm: unknown, key: CryptoKey, data: Uint8Array) => computeHmac(key, data),
  verify: async (_algorithm: unknown, key: CryptoKey, signature: Uint8Array, data: Uint8Array) =>
    Buffer.from(signature).equals(computeHmac(key, data)),
};

function computeHmac(key: CryptoKey, data: Uint8Array): Buffer {
  return crypto.createHmac('sha256', toKeyObject(key)).update(data).digest();
}

function toKeyObject(key: CryptoKey): crypto.KeyObject {
  return crypto.KeyObject.from(key as crypto.webcrypto.CryptoKey);
}

Object.assign(timers, replacedTimers);
Object.assign(globalThis, replacedTimers, { Date: VirtualDate });
Object.assign(timersPromises, {
  setTimeout: sleep,
  // Processes share a queue of turns, which a dead process must not block. So its code may run once more, up to its next
  // request or query, which never happens.
  setImmediate: () =>
    new Promise<void>((resolve) => void platform.scheduler.schedule(0, resolve, WORLD)),
});
Object.assign(crypto, replacedCrypto);
replaceDatabaseClock();
Object.defineProperty(globalThis.crypto, 'getRandomValues', { value: fillRandom });
Object.defineProperty(globalThis.crypto, 'randomUUID', { value: replacedCrypto.randomUUID });
Object.defineProperties(globalThis.crypto.subtle, {
  encrypt: { value: replacedSubtle.encrypt },
  decrypt: { value: replacedSubtle.decrypt },
  sign: { value: replacedSubtle.sign },
  verify: { value: replacedSubtle.verify },
});
Object.defineProperty(performance, 'now', { value: () => platform.scheduler.nowMs });
Object.defineProperty(process, 'pid', { value: 1 });
os.hostname = () => 'simulation';
Math.random = () => platform.random.next();
syncBuiltinESMExports();
