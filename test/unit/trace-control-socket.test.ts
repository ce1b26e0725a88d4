import { once } from 'node:events';
import fs from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { askService as askServiceAt } from '../../src/commands/ask-service.ts';
import type { CommandResult } from '../../src/commands/command.ts';
import { ControlSocket } from '../../src/commands/control-socket.ts';
import type { Store } from '../../src/store/store.ts';
import { LogCapture } from '../helpers/log-capture.ts';
import { npubcashImport } from '../helpers/operator.ts';
import { TestTerminal } from '../helpers/test-terminal.ts';

/** How `nutpost <command>` reaches the service that has the database. */

/** As good as the money of the quote that it names. */
const SECRET_QUOTE_ID = 'secret.quote.id';

/** A database in which nothing is found. */
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

describe('a command', () => {
  it('is run by the service, and told by it to the word', async () => {
    await startSocket();
    expect(await askService(['trace', SECRET_QUOTE_ID])).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'Not found: no quote has this id.\n',
    });
    expect(captured.lines.join('')).toContain('"command":"trace","exitCode":1');
    expect(captured.lines.join('')).not.toContain(SECRET_QUOTE_ID);
  });

  it('that the service does not know, or not so, is answered by its usage', async () => {
    await startSocket();
    for (const argv of [[], ['serve'], ['trace'], ['trace', 'a', 'b'], ['trace', '--what']]) {
      const { exitCode, stderr } = await askService(argv);
      expect(exitCode).toBe(2);
      expect(stderr).toContain('Usage: nutpost <command>\n\n  trace <payment hash');
    }
    expect(await askService(['trace', '--help'])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('Usage: nutpost'),
    });
  });

  it('that fails is logged without its arguments, and told of in one sentence', async () => {
    await startSocket({} as Store);
    await expect(askService(['trace', SECRET_QUOTE_ID])).rejects.toThrow(
      /^The service at \S+control\.sock could not run the command \(HTTP 500\); its log says why\.$/,
    );
    expect(captured.lines).toEqual([
      expect.stringMatching(/"level":50.*a command of the operator failed/),
    ]);
    expect(captured.lines.join('')).not.toContain(SECRET_QUOTE_ID);
  });

  it('that nobody hears is told of in one sentence', async () => {
    const sentence = (reason: string) =>
      new RegExp(
        `^The data directory is in use by another nutpost process, which does not answer at \\S+control\\.sock \\(${reason}\\): it may be starting or stopping, so try again in a moment\\.$`,
      );
    await expect(askService(['trace', 'x.y'])).rejects.toThrow(sentence('ENOENT'));
    fs.writeFileSync(socketPath(), '');
    await expect(askService(['trace', 'x.y'])).rejects.toThrow(sentence('(ECONNREFUSED|ENOTSOCK)'));
  });
});

describe('the control socket', () => {
  it('is open to its owner alone', async () => {
    await startSocket();
    expect(fs.statSync(socketPath()).mode & 0o777).toBe(0o600);
  });

  it('takes the place of what a killed service left, and is gone when the service has stopped', async () => {
    fs.writeFileSync(socketPath(), 'stale');
    const socket = await startSocket();
    expect(await askService(['trace', '-h'])).toMatchObject({ exitCode: 0 });
    await socket.stop();
    expect(fs.existsSync(socketPath())).toBe(false);
    await socket.stop();
  });

  it('refuses what is no command, and goes on', async () => {
    await startSocket();
    expect((await send('GET', '/run', '')).statusCode).toBe(404);
    expect((await send('POST', '/', '{"argv":[]}')).statusCode).toBe(404);
    for (const body of ['', '{', '[]', '{"argv":"trace"}', '{"argv":[1]}']) {
      expect((await send('POST', '/run', body)).statusCode, body).toBe(400);
    }
    expect(await askService(['trace', '-h'])).toMatchObject({ exitCode: 0 });
    expect(captured.lines).toEqual([]);
  });

  it('does not read a body without end', async () => {
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

  it('that cannot be opened is told of once, and keeps nobody from being paid', async () => {
    dataDir = path.join(dataDir, 'd'.repeat(150));
    fs.mkdirSync(dataDir);
    const socket = await startSocket();
    expect(captured.lines).toEqual([
      expect.stringMatching(
        /"level":40.*the control socket cannot be opened.*make DATA_DIR shorter/,
      ),
    ]);
    await socket.stop();
  });

  it('does not wait long for whoever says nothing, when the service stops', async () => {
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

async function send(method: string, urlPath: string, body: string): Promise<IncomingMessage> {
  const sending = connect(method, urlPath);
  sending.end(body);
  const [response] = (await once(sending, 'response')) as [IncomingMessage];
  await text(response);
  return response;
}
