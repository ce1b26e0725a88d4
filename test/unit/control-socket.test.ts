import { once } from 'node:events';
import fs from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { askService as askServiceAt } from '../../src/commands/ask-service.ts';
import type { CommandResult } from '../../src/commands/command.ts';
import { ControlSocket } from '../../src/commands/control-socket.ts';
import type { Store } from '../../src/store/store.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { npubcashImport } from '../helpers/operator.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** Whoever has it can take the money. */
const SECRET_QUOTE_ID = 'secret.quote.id';

const EMPTY_STORE = {
  users: { findByName: async () => null },
  traces: { findByQuoteId: async () => [] },
} as unknown as Store;

let dataDir: string;
let captured: LogCapture;

beforeEach(() => {
  dataDir = fs.mkdtempSync(path.join(tmpdir(), 'nutpost-control-'));
  captured = new LogCapture('debug');
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

describe('askService', () => {
  it('runs the command in the service, which logs it without its arguments', async () => {
    await startSocket();
    expect(await askService(['trace', SECRET_QUOTE_ID])).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'Not found: no quote has this id.\n',
    });
    expect(captured.lines.join('')).toContain('"command":"trace","exitCode":1');
    expect(captured.lines.join('')).not.toContain(SECRET_QUOTE_ID);
  });

  it('throws if the command fails, which is logged without its arguments', async () => {
    await startSocket({} as Store);
    await expect(askService(['trace', SECRET_QUOTE_ID])).rejects.toThrow(
      /^The service at \S+control\.sock could not run the command \(HTTP 500\); see its log\.$/,
    );
    expect(captured.lines).toEqual([
      expect.stringMatching(/"level":50.*a command of the operator failed/),
    ]);
    expect(captured.lines.join('')).not.toContain(SECRET_QUOTE_ID);
  });
});

describe('ControlSocket', () => {
  it('replaces a stale file, is open to its owner only, and removes the file', async () => {
    fs.writeFileSync(socketPath(), 'stale');
    const socket = await startSocket();
    expect(fs.statSync(socketPath()).mode & 0o777).toBe(0o600);
    expect(await askService(['trace', '-h'])).toMatchObject({ exitCode: 0 });
    await socket.stop();
    expect(fs.existsSync(socketPath())).toBe(false);
    await socket.stop();
  });

  it.each<[string, string, string, number]>([
    ['GET', '/run', '', 400],
    ['POST', '/', '{"argv":[]}', 400],
    ...['', '{', '[]', '{"argv":"trace"}', '{"argv":[1]}'].map(
      (body): [string, string, string, number] => ['POST', '/run', body, 400],
    ),
  ])('answers %s %s %s with %i', async (method, urlPath, body, status) => {
    await startSocket();
    const sending = connect(method, urlPath);
    sending.end(body);
    const [response] = (await once(sending, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(status);
    response.resume();
    expect(captured.lines).toEqual([]);
  });

  it('does not read an endless body', async () => {
    await startSocket();
    const endless = function* () {
      for (;;) {
        yield ' '.repeat(16_384);
      }
    };
    const sending = connect('POST', '/run');
    await expect(pipeline(endless, sending)).rejects.toThrow(/EPIPE|ECONNRESET|hang up|closed/);
    expect(await askService(['trace', '-h'])).toMatchObject({ exitCode: 0 });
  });

  it('logs a warning if it cannot be opened', async () => {
    dataDir = path.join(dataDir, 'd'.repeat(150));
    fs.mkdirSync(dataDir);
    await startSocket();
    expect(captured.lines).toEqual([
      expect.stringMatching(
        /"level":40.*the control socket cannot be opened.*make DATA_DIR shorter/,
      ),
    ]);
  });

  it('does not wait for a silent client when it stops', async () => {
    const socket = await startSocket();
    const silent = connect('POST', '/run', { expect: '100-continue' });
    silent.on('error', () => undefined);
    silent.flushHeaders();
    await once(silent, 'continue');
    await socket.stop();
    expect(fs.existsSync(socketPath())).toBe(false);
  });
});

function askService(argv: readonly string[]): Promise<CommandResult> {
  return askServiceAt(dataDir, argv, new TestTerminal());
}

async function startSocket(store = EMPTY_STORE): Promise<ControlSocket> {
  const importNpubcash = npubcashImport(store, Date.now);
  const own = { reservedNames: [], treasury: null, version: '1.2.3' };
  const parts = { store, ...own, importNpubcash, clock: Date.now };
  const socket = new ControlSocket({ dataDir, parts, log: captured.log });
  onTestFinished(() => socket.stop());
  await socket.start();
  return socket;
}

function socketPath(): string {
  return path.join(dataDir, 'control.sock');
}

function connect(method: string, urlPath: string, headers = {}): ClientRequest {
  return request({ socketPath: socketPath(), method, path: urlPath, headers, agent: false });
}
