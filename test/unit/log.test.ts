import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { text as toText } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { REDACTED } from '../../src/redaction.ts';
import { LogCapture } from '../helpers/log-capture.ts';

/** The content of log lines, and how they are written. */

const LOG_MODULE = path.resolve(import.meta.dirname, '../../src/log.ts');

const HEX = '0123456789abcdef'.repeat(4);
const ROW = 'Failing row contains (alice, 21)';

describe('a log line', () => {
  it('contains no secret, at any level and in any child logger', () => {
    const captured = new LogCapture('trace');
    const child = captured.log.child({ reqId: 1, token: HEX });
    child.trace({ quoteIds: [HEX], user: { secretKey: HEX } }, `Bearer ${HEX}`);
    const cause = Object.assign(new Error(`cashuB${HEX}`), { detail: ROW });
    child.error({ err: new Error(`{"secret":"${HEX}"}`, { cause }) }, 'request failed');
    child.fatal(new Error(`nsec1${HEX}`));
    const [traced, failed] = captured.lines.map((line) => JSON.parse(line));
    expect(traced).toMatchObject({
      reqId: 1,
      token: REDACTED,
      quoteIds: REDACTED,
      user: { secretKey: REDACTED },
      msg: `Bearer ${REDACTED}`,
    });
    expect(failed.err).toMatchObject({
      message: `{"secret":"${REDACTED}"}`,
      stack: expect.stringContaining('log.test.ts'),
      cause: { message: REDACTED },
    });
    expect(captured.lines).toHaveLength(3);
    expect(captured.lines.join('')).not.toContain(HEX);
  });

  it("includes an error's causes and nested errors, but no database details", () => {
    const cause = Object.assign(new Error('duplicate key'), { code: '23505', detail: ROW });
    const error = new AggregateError([{ message: 'rejected', code: 7, detail: ROW }], 'no quote', {
      cause,
    });
    expect(logged(error).err).toEqual({
      type: 'AggregateError',
      message: 'no quote',
      stack: error.stack,
      errors: [{ message: 'rejected', code: 7 }],
      cause: { type: 'Error', message: 'duplicate key', code: '23505', stack: cause.stack },
    });
  });

  it('is short even if an error is its own cause or has very many nested errors', () => {
    const cyclic = new AggregateError([], 'cyclic');
    cyclic.errors = Array.from({ length: 50_000 }, () => cyclic);
    cyclic.cause = cyclic;
    expect(JSON.stringify(logged(cyclic)).length).toBeLessThan(500_000);
  });

  it.each<[unknown, object]>([
    [{ detail: ROW }, { message: 'an object was thrown' }],
    ['text', { message: 'text' }],
    [null, { message: 'null' }],
  ])('describes the thrown value %o', (thrown, expected) => {
    expect(logged(thrown).err).toEqual(expected);
  });
});

describe('standard output', () => {
  it.each([
    ['auto', 'json', false],
    ['auto', 'pretty', true],
    ['json', 'json', true],
    ['pretty', 'pretty', false],
  ])('formats LOG_FORMAT=%s as %s if isatty is %s', (format, expected, isTerminal) => {
    const lines = linesOfService(format, isTerminal);
    if (expected === 'json') {
      expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['hello', 'it failed']);
    } else {
      expect(lines[0]).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] .*INFO.*: .*hello/);
      expect(lines.length).toBeGreaterThan(5);
    }
  });

  it('omits secrets and control characters in the pretty format', () => {
    const text = linesOfService('pretty', true).join('\n');
    expect(text).toContain(REDACTED);
    expect(text).toContain('refused');
    expect(text).not.toContain(HEX);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test rejects control characters.
    expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });

  it('receives every line in order before the process exits, even if it crashes', () => {
    const lines = linesOf(
      `for (let line = 0; line < 300; line += 1) log.info({ line }, 'a line');
      process.exit(1);`,
    );
    expect(lines.map((line) => JSON.parse(line).line)).toEqual([...Array(300).keys()]);
  });

  it.each(['', 'exec 2>&1;'])(
    'never blocks the process if its reader does not read (%j)',
    async (shell) => {
      const child = start(
        shell,
        `const { writeSync } = await import('node:fs');
        const { monitorEventLoopDelay } = await import('node:perf_hooks');
        const delays = monitorEventLoopDelay({ resolution: 1 });
        delays.enable();
        let line = 0;
        const timer = setInterval(() => {
          for (let each = 0; each < 100; each += 1) log.info({ line: line++, filler: 'x'.repeat(100) });
          if (line >= 5_000) {
            clearInterval(timer);
            writeSync(3, String(delays.max / 1e6));
            process.exit(0);
          }
        }, 1);`,
      );
      const longestDelayMs = Number(await toText(child.stdio[3] as Readable));
      expect(longestDelayMs).toBeGreaterThan(0);
      expect(longestDelayMs).toBeLessThan(1_000);
      // The reader has not read yet; the process does not wait for it indefinitely.
      const [code] = await once(child, 'exit');
      expect(code).toBe(0);
    },
  );

  it('does not keep the process from exiting if the disk is full', async () => {
    const child = start(
      'exec >/dev/full;',
      `log.info('a'); setTimeout(() => process.exit(0), 100);`,
    );
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
  });

  it('delivers every line to a late reader', async () => {
    const child = start(
      '',
      `for (let line = 0; line < 5_000; line += 1) log.info({ line, filler: 'x'.repeat(100) });
      (await import('node:fs')).writeSync(3, 'all are logged');`,
    );
    await once(child.stdio[3] as Readable, 'data');
    const lines = (await toText(child.stdout as Readable)).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).line)).toEqual([...Array(5_000).keys()]);
  });
});

/** Starts a program with a `log`. File descriptor 3 is for other results. */
function start(shell: string, program: string) {
  const command = [`${shell} exec "$0" "$@"`, process.execPath, ...script('json', program)];
  return spawn('/bin/sh', ['-c', ...command], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
}

function linesOfService(format: string, isTerminal: boolean): string[] {
  return linesOf(
    `log.info({ quoteId: '${HEX}', reason: 'refused\\u001b[2J\\u009b\\u202e' }, 'hello');
    log.error({ err: new Error('refused\\u001b[2J {"secret":"${HEX}"}') }, 'it failed');`,
    format,
    isTerminal,
  );
}

function linesOf(program: string, format = 'json', isTerminal = false): string[] {
  const { stdout, stderr } = spawnSync(process.execPath, script(format, program, isTerminal), {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  expect(stderr).toBe('');
  return stdout.trimEnd().split('\n');
}

function script(format: string, program: string, isTerminal = false): string[] {
  const source = `
    const { default: tty } = await import('node:tty');
    tty.isatty = () => ${isTerminal};
    (await import('node:module')).syncBuiltinESMExports();
    const { createLogDestination, createLogger } = await import(${JSON.stringify(LOG_MODULE)});
    const log = createLogger('info', await createLogDestination('${format}'));
    ${program}`;
  return ['--input-type=module', '--eval', source];
}

// biome-ignore lint/suspicious/noExplicitAny: parsed JSON.
function logged(error: unknown): any {
  const captured = new LogCapture('error');
  captured.log.error({ err: error }, 'it failed');
  return JSON.parse(captured.lines.join(''));
}
