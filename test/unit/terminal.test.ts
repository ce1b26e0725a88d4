import { PassThrough } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ProcessTerminal } from '../../src/commands/terminal.ts';

/** How a command that takes long speaks in a terminal, in a log and into a file. */

it('in a terminal, the newest line of progress stands in place of the one before', () => {
  const { terminal, clock, stderr } = open({ isTTY: true, columns: 20 });
  terminal.progress('too early to be seen');
  clock.nowMs += 100;
  terminal.progress('one');
  clock.nowMs += 99;
  terminal.progress('too soon to be read');
  clock.nowMs += 1;
  terminal.progress('a line that is longer than the terminal is wide');
  terminal.end();
  expect(said(stderr)).toBe('\r\u001b[Kone\r\u001b[Ka line that is long\r\u001b[K');
});

it('in a log, there is a line now and then', () => {
  const { terminal, clock, stderr } = open({});
  for (let second = 0; second <= 25; second += 1) {
    terminal.progress(`${second}`);
    clock.nowMs += 1_000;
  }
  terminal.end();
  expect(said(stderr)).toBe('10\n20\n');
});

it('a command that is done at once has drawn nothing', () => {
  const { terminal, stderr } = open({ isTTY: true });
  terminal.end();
  expect(said(stderr)).toBe('');
});

it('what is written waits for who reads', async () => {
  const { terminal, stdout } = open({});
  let isWritten = false;
  const writing = terminal.write('x'.repeat(stdout.writableHighWaterMark * 3)).then(() => {
    isWritten = true;
  });
  await setImmediate();
  expect(isWritten).toBe(false);
  stdout.resume();
  await writing;
});

it('a reader who leaves ends the command in one sentence', async () => {
  const { terminal, stdout } = open({});
  const writing = terminal.write('x'.repeat(stdout.writableHighWaterMark * 3));
  stdout.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
  const sentence = 'Standard output was closed before its end.';
  await expect(writing).rejects.toThrow(sentence);
  await expect(terminal.write('more')).rejects.toThrow(sentence);
  expect(terminal.signal.aborted).toBe(true);
});

it('a keyboard is no input', () => {
  expect(open({}, { isTTY: true }).terminal.input).toBeNull();
  expect(open({}).terminal.input).not.toBeNull();
});

function open(errorStream: object, inputStream: object = {}) {
  const stdout = new PassThrough();
  const stderr = Object.assign(new PassThrough({ encoding: 'utf8' }), errorStream);
  const stdin = Object.assign(new PassThrough(), inputStream);
  const clock = { nowMs: 5 };
  const streams = { stdin, stdout, stderr } as unknown as NodeJS.Process;
  return { terminal: new ProcessTerminal(streams, () => clock.nowMs), clock, stdout, stderr };
}

function said(stream: PassThrough): string {
  return stream.read() ?? '';
}
