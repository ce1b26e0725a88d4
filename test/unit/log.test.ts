import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createConnection } from 'node:net';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { text as toText } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { MAX_TEXT_CHARS, REDACTED } from '../../src/domain/redaction.ts';
import { errorText } from '../../src/log.ts';
import { LogCapture } from '../helpers/log-capture.ts';

/** What an operator reads of an error, in the log and at a terminal. */

const LOG_MODULE = path.resolve(import.meta.dirname, '../../src/log.ts');

const HEX = '0123456789abcdef'.repeat(4);
const UNREADABLE = { message: 'an error that cannot be read' };
const ROW = 'Failing row contains (alice, 21)';

describe('an error in the log', () => {
  it('tells of each address that refused a connection', async () => {
    const error = await refusedConnection();
    expect(error.message).toBe('');
    const { err } = logged(error);
    expect(err).toMatchObject({ type: 'AggregateError', code: 'ECONNREFUSED' });
    expect(err.errors.map(({ message }: Error) => message)).toEqual([
      expect.stringMatching(/^connect ECONNREFUSED 127\.0\.0\.[12]:1$/),
      expect.stringMatching(/^connect ECONNREFUSED 127\.0\.0\.[12]:1$/),
    ]);
  });

  it('is told with its causes, their codes and nothing else that a database adds', () => {
    const cause = Object.assign(new Error('duplicate key'), { code: '23505', detail: ROW });
    const error = new AggregateError([{ message: 'refused', code: 7, detail: ROW }], 'no quote', {
      cause,
    });
    expect(logged(error).err).toEqual({
      type: 'AggregateError',
      message: 'no quote',
      stack: error.stack,
      errors: [{ message: 'refused', code: 7 }],
      cause: { type: 'Error', message: 'duplicate key', code: '23505', stack: cause.stack },
    });
  });

  it('is one line, however many errors there are in it', () => {
    const cyclic = new Error('first');
    cyclic.cause = new Error('second', { cause: cyclic });
    expect(logged(cyclic).err).toMatchObject({
      message: 'first',
      cause: { message: 'second', cause: { message: 'the same error again' } },
    });

    let deep = new Error('the innermost');
    for (let depth = 0; depth < 50_000; depth += 1) {
      deep = new Error(`at depth ${depth}`, { cause: deep });
    }
    const wide = new AggregateError(Array.from({ length: 50_000 }, (_, i) => new Error(`no ${i}`)));
    for (const error of [deep, wide, new AggregateError([wide, wide, deep])]) {
      const line = JSON.stringify(logged(error));
      expect(line.length).toBeLessThan(100_000);
      expect(line).toContain('further errors are left out');
    }
    expect(logged(wide).err.errors[8]).toMatchObject({ message: 'no 8' });
  });

  it.each<[string, unknown, object]>([
    [
      'a plain object',
      { message: 'away', code: 'GONE', detail: ROW },
      { message: 'away', code: 'GONE' },
    ],
    ['an object without words', { detail: ROW }, { message: 'an object was thrown' }],
    ['a text', `no {"secret":"${HEX}"}`, { message: `no {"secret":"${REDACTED}"}` }],
    ['nothing', undefined, { message: 'undefined' }],
    ['null', null, { message: 'null' }],
    ['a symbol', Symbol('x'), { message: 'Symbol(x)' }],
    ['an object of no class', Object.create(null), { message: 'an object was thrown' }],
    [
      'a function that does not want to be text',
      Object.assign(() => 0, { toString: fail }),
      UNREADABLE,
    ],
    ['an object with a trap', new Proxy({}, { get: fail, has: fail }), UNREADABLE],
    [
      'an error with a trap',
      Object.defineProperty(new Error('x'), 'message', { get: fail }),
      UNREADABLE,
    ],
    [
      'one with an odd message',
      { message: { toString: fail } },
      { message: 'an object was thrown' },
    ],
    ['one with an odd code', { message: 'x', code: { detail: ROW } }, { message: 'x' }],
  ])('may be anything, such as %s', (_what, thrown, expected) => {
    expect(logged({ message: 'x', cause: thrown }).err.cause).toEqual(
      thrown === undefined ? undefined : expected,
    );
    const described = { ...logged(thrown).err };
    expect(described).toEqual(thrown === undefined ? {} : expected);
    expect(() => errorText(thrown)).not.toThrow();
  });
});

describe('a line that is too long', () => {
  it('is still one of JSON, of its level and time, and says that it was cut', () => {
    const captured = new LogCapture('info');
    captured.log.warn({ quoteId: HEX, mintUrl: 'x'.repeat(9 * 2 ** 20) }, 'too much');
    captured.log.info('and on it goes');
    expect(captured.lines).toHaveLength(2);
    const [long = '', next = ''] = captured.lines;
    expect(long.endsWith('}\n')).toBe(true);
    expect(long.length).toBeLessThan(MAX_TEXT_CHARS * 1.1);
    expect(long).not.toContain(HEX);
    const { level, time, msg, line } = JSON.parse(long);
    expect({ level, msg }).toEqual({ level: 40, msg: 'a line of the log was too long' });
    expect(Math.abs(Date.now() - time)).toBeLessThan(60_000);
    expect(line).toMatch(
      /^\{"level":40,.*"quoteId":"\[redacted\]".* \[cut: \d+ more characters\]$/,
    );
    expect(JSON.parse(next)).toMatchObject({ level: 30, msg: 'and on it goes' });
  });
});

describe('the log of the service', () => {
  it.each([
    ['auto', 'json', { isTTY: false }],
    ['auto', 'pretty', { isTTY: true }],
    ['json', 'json', { isTTY: true }],
    ['pretty', 'pretty', { isTTY: false }],
  ])(
    'with LOG_FORMAT=%s is %s where a terminal is said to be %o',
    (format, expected, { isTTY }) => {
      const lines = linesOfService(format, isTTY);
      if (expected === 'json') {
        expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['hello', 'it failed']);
      } else {
        expect(lines[0]).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] .*INFO.*: .*hello/);
        expect(lines.length).toBeGreaterThan(5);
      }
    },
  );

  it('tells no secret at a terminal either, and moves no cursor there', () => {
    const text = linesOfService('pretty', true).join('\n');
    expect(text).toContain(REDACTED);
    expect(text).toContain('refused');
    expect(text).not.toContain(HEX);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: it is what must not be there.
    expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });
});

describe('standard output', () => {
  it.each([
    ['by itself', ''],
    ['that is that of errors too', 'exec 2>&1;'],
  ])(
    '%s may have a late reader, who gets every line and is hardly waited for',
    async (_, shell) => {
      const lines = 5_000;
      const program = `
      const { writeSync } = await import('node:fs');
      const { logOutput, openLog } = await import(${JSON.stringify(LOG_MODULE)});
      // A look makes it one that does not wait by itself.
      process.stdout.isTTY;
      const { wait } = Atomics;
      let longestMs = 0;
      Atomics.wait = (cell, index, value, ms) => {
        if (longestMs === 0) {
          writeSync(3, 'it is full');
        }
        longestMs = Math.max(longestMs, ms);
        return wait(cell, index, value, ms);
      };
      const log = openLog('info', await logOutput('auto'));
      for (let line = 0; line < ${lines}; line += 1) {
        log.info({ line, filler: 'x'.repeat(100) }, 'a line');
      }
      log.info({ longestMs }, 'the last line');`;
      const command = [`${shell} exec "$0" "$@"`, process.execPath, ...script(program)];
      const child = spawn('/bin/sh', ['-c', ...command], {
        stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      });
      await once(child.stdio[3] as Readable, 'data');
      const written = (await toText(child.stdout as Readable)).trimEnd().split('\n');
      const read = written.map((line) => JSON.parse(line));
      expect(read.map(({ line }) => line)).toEqual([...Array(lines).keys(), undefined]);
      expect(read.at(-1).longestMs).toBe(1);
    },
  );
});

describe('lines that are logged together', () => {
  it('are written a few at a time, whole and in their order, and all of them before what comes next', () => {
    const lines = 100;
    const [writes, ...rest] = linesWithWrites(`
      logTogether(log, () => {
        for (let line = 0; line < ${lines}; line += 1) {
          log.child({ line }).info('é'.repeat(150));
        }
      });
      log.info({ line: ${lines} }, 'by itself');`);
    expect(rest.map((line) => JSON.parse(line).line)).toEqual([...Array(lines + 1).keys()]);
    expect(writes.length).toBeLessThan(lines / 5);
    // What a pipe takes in one piece, in bytes.
    expect(Math.max(...writes.map((text) => Buffer.byteLength(text)))).toBeLessThanOrEqual(4_096);
    expect(writes.filter((text) => !text.endsWith('\n'))).toEqual([]);
  });

  it('are written where one of them is longer than a piece, and where something is thrown', () => {
    const [writes] = linesWithWrites(`
      try {
        logTogether(log, () => {
          log.info('short');
          log.info('x'.repeat(5_000));
          log.info('short');
          throw new Error('the end');
        });
      } catch (error) {
        log.info(error.message);
      }`);
    expect(writes.map((text) => JSON.parse(text).msg.length)).toEqual([5, 5_000, 5, 7]);
  });

  it('may be some of those that are logged together', () => {
    const [writes] = linesWithWrites(`
      logTogether(log, () => {
        log.info('1');
        logTogether(log, () => log.info('2'));
        log.info('3');
      });
      log.info('4');`);
    const lines = writes.map((text) =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    );
    expect(lines.map((each) => each.map(({ msg }) => msg))).toEqual([['1', '2', '3'], ['4']]);
  });

  /** @returns what was written to standard output at a time, and all its lines */
  function linesWithWrites(program: string): [string[], ...string[]] {
    const [writes = '', ...lines] = outputOf(`
      const { default: fs } = await import('node:fs');
      const { writeSync } = fs;
      const writes = [];
      fs.writeSync = (file, bytes) => {
        writes.push(String(bytes));
        return bytes.length;
      };
      (await import('node:module')).syncBuiltinESMExports();
      const { logOutput, logTogether, openLog } = await import(${JSON.stringify(LOG_MODULE)});
      const log = openLog('info', await logOutput('json'));
      ${program}
      writeSync(1, JSON.stringify(writes) + '\\n' + writes.join(''));`);
    return [JSON.parse(writes), ...lines];
  }
});

describe('an error at a terminal', () => {
  it('is told with its stack, its code and its causes, and without secrets', () => {
    const cause = Object.assign(new Error(`Bearer ${'k'.repeat(20)}`), {
      code: '23505',
      detail: ROW,
    });
    cause.stack = `Error: ${cause.message}\n    at inside`;
    const error = Object.assign(new AggregateError(['a', { code: 'B' }], 'failed', { cause }), {
      code: 'E1',
    });
    error.stack = 'AggregateError: failed\n    at outside';
    expect(errorText(error)).toBe(
      [
        'AggregateError: failed',
        '    at outside',
        'code: E1',
        'one of its errors: a',
        'one of its errors: an object was thrown',
        '  code: B',
        `caused by: Error: Bearer ${REDACTED}`,
        '      at inside',
        '  code: 23505',
        '',
      ].join('\n'),
    );
  });

  it('is told by its name where it has no stack', () => {
    expect(errorText({ name: 'Trouble', message: 'x' })).toBe('Trouble: x\n');
    expect(errorText('x')).toBe('x\n');
  });
});

/** What a process writes on its standard output that logs as the service does. */
function linesOfService(format: string, isTTY: boolean): string[] {
  return outputOf(`
    const { default: tty } = await import('node:tty');
    tty.isatty = () => ${isTTY};
    (await import('node:module')).syncBuiltinESMExports();
    const { logOutput, openLog } = await import(${JSON.stringify(LOG_MODULE)});
    const log = openLog('info', await logOutput('${format}'));
    log.info({ quoteId: '${HEX}', reason: 'refused\\u001b[2J\\u009b\\u202e' }, 'hello');
    log.error({ err: new Error('refused\\u001b[2J {"secret":"${HEX}"}') }, 'it failed');`);
}

/** The lines that a program writes, all of them without a complaint. */
function outputOf(program: string): string[] {
  const { stdout, stderr } = spawnSync(process.execPath, script(program), {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  expect(stderr).toBe('');
  return stdout.trimEnd().split('\n');
}

function script(program: string): string[] {
  return ['--input-type=module', '--eval', program];
}

/** Of a connection to a name that has several addresses. */
function refusedConnection(): Promise<Error> {
  const addresses = [
    { address: '127.0.0.1', family: 4 },
    { address: '127.0.0.2', family: 4 },
  ];
  const socket = createConnection({
    host: 'db.example',
    port: 1,
    autoSelectFamily: true,
    lookup: (_host, _options, done) => done(null, addresses),
  });
  return new Promise((resolve) => socket.once('error', resolve));
}

// biome-ignore lint/suspicious/noExplicitAny: it is what a test reads out of JSON.
function logged(error: unknown): any {
  const captured = new LogCapture('error');
  captured.log.error({ err: error }, 'it failed');
  return JSON.parse(captured.lines.join(''));
}

function fail(): never {
  throw new Error('a trap');
}
