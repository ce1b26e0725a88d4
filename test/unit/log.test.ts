import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { text as toText } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { REDACTED } from '../../src/redaction.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';

const LOG_MODULE = path.resolve(import.meta.dirname, '../../src/log.ts');

const SECRET_HEX = '0123456789abcdef'.repeat(4);
const ROW_DETAIL = 'Failing row contains (alice, 21)';

describe('a log line', () => {
  it('contains no secret, at any level and in any child logger', () => {
    const capture = new LogCapture('trace');
    const child = capture.log.child({ reqId: 1, token: SECRET_HEX });
    child.trace(
      { quoteIds: [SECRET_HEX], user: { secretKey: SECRET_HEX } },
      `Bearer ${SECRET_HEX}`,
    );
    const cause = Object.assign(new Error(`cashuB${SECRET_HEX}`), { detail: ROW_DETAIL });
    child.error({ err: new Error(`{"secret":"${SECRET_HEX}"}`, { cause }) }, 'request failed');
    child.fatal(new Error(`nsec1${SECRET_HEX}`));
    const [tracedLine, errorLine] = capture.lines.map((line) => JSON.parse(line));
    expect(tracedLine).toMatchObject({
      reqId: 1,
      token: REDACTED,
      quoteIds: REDACTED,
      user: { secretKey: REDACTED },
      msg: `Bearer ${REDACTED}`,
    });
    expect(errorLine.err).toMatchObject({
      message: `{"secret":"${REDACTED}"}`,
      stack: expect.stringContaining('log.test.ts'),
      cause: { message: REDACTED },
    });
    expect(capture.lines).toHaveLength(3);
    expect(capture.lines.join('')).not.toContain(SECRET_HEX);
  });

  it('stays short if an error is its own cause or has very many nested errors', () => {
    const cyclic = new AggregateError([], 'cyclic');
    cyclic.errors = Array.from({ length: 50_000 }, () => cyclic);
    cyclic.cause = cyclic;
    expect(JSON.stringify(logError(cyclic)).length).toBeLessThan(500_000);
  });
});

describe('log output', () => {
  it('is in JSON by default, and readable if isatty returns true', () => {
    const lines = runServiceProgram('auto', false);
    expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['hello', 'it failed']);
    const readableLines = runServiceProgram('auto', true);
    expect(readableLines[0]).toMatch(/^\[\d\d:\d\d:\d\d\.\d{3}\] .*INFO.*: .*hello/);
    expect(readableLines.length).toBeGreaterThan(5);
  });

  it.each([
    ['begins each line with its priority if', '%d:%i', 'json', /^<6>\{.*\n<3>\{.*\n$/],
    ['begins each line with its priority if', '%d:%i', 'pretty', /^<6>.+\n(<3>.+\n){3,}$/],
    ['has no priorities unless', '0:%i', 'json', /^\{.*\n\{.*\n$/],
  ] as const)('%s standard output (%s) leads to the journal (%s)', async (...row) => {
    const [, stream, format, expected] = row;
    const child = startProgram(
      `export JOURNAL_STREAM=$(stat -L -c ${stream} /proc/$$/fd/1);`,
      `log.info('hello'); log.error(new Error('it failed'), 'it failed');`,
      format,
    );
    expect(await toText(child.stdout as Readable)).toMatch(expected);
  });

  it('contains no secrets or control characters in the pretty format', () => {
    const text = runServiceProgram('pretty', true).join('\n');
    expect(text).toContain(REDACTED);
    expect(text).toContain('refused');
    expect(text).not.toContain(SECRET_HEX);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the test rejects control characters.
    expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/);
  });

  it.each(['', 'exec 2>&1;'])(
    'never blocks the process if nothing reads the lines (redirection: %j)',
    async (redirection) => {
      const child = startProgram(
        redirection,
        `const { writeSync } = await import('node:fs');
        const { monitorEventLoopDelay } = await import('node:perf_hooks');
        const delays = monitorEventLoopDelay({ resolution: 1 });
        delays.enable();
        let line = 0;
        const timer = setInterval(() => {
          for (let i = 0; i < 100; i += 1) log.info({ line: line++, filler: 'x'.repeat(100) });
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
      // The process exits although the reader has not read the lines.
      const [code] = await once(child, 'exit');
      expect(code).toBe(0);
    },
  );

  it('does not keep the process from exiting if the disk is full', async () => {
    const child = startProgram(
      'exec >/dev/full;',
      `log.info('a'); setTimeout(() => process.exit(0), 100);`,
    );
    const [code] = await once(child, 'exit');
    expect(code).toBe(0);
  });
});

/** Starts a program that can use the variable `log`, and file descriptor 3 to report results. */
function startProgram(redirection: string, program: string, format = 'json') {
  const command = [
    `${redirection} exec "$0" "$@"`,
    process.execPath,
    ...nodeArguments(format, program),
  ];
  return spawn('/bin/sh', ['-c', ...command], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'] });
}

function runServiceProgram(format: string, isTerminal: boolean): string[] {
  const program = `log.info({ quoteId: '${SECRET_HEX}', reason: 'refused\\u001b[2J\\u009b\\u202e' }, 'hello');
    log.error({ err: new Error('refused\\u001b[2J {"secret":"${SECRET_HEX}"}') }, 'it failed');`;
  const args = nodeArguments(format, program, isTerminal);
  const env = { ...process.env, NO_COLOR: '1' };
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
  expect(stderr).toBe('');
  return stdout.trimEnd().split('\n');
}

function nodeArguments(format: string, program: string, isTerminal = false): string[] {
  const source = `
    const { default: tty } = await import('node:tty');
    tty.isatty = () => ${isTerminal};
    (await import('node:module')).syncBuiltinESMExports();
    const { createLogDestination, createLogger } = await import(${JSON.stringify(LOG_MODULE)});
    const log = createLogger('info', await createLogDestination('${format}', process.env.JOURNAL_STREAM ?? null));
    ${program}`;
  return ['--input-type=module', '--eval', source];
}

// biome-ignore lint/suspicious/noExplicitAny: parsed JSON.
function logError(error: unknown): any {
  const capture = new LogCapture('error');
  capture.log.error({ err: error }, 'it failed');
  return JSON.parse(capture.lines.join(''));
}
