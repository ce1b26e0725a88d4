import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../domain/errors.ts';
import type { Log } from '../log.ts';
import { controlSocketPath, type ResponseLine, runRequest } from './ask-service.ts';
import type { CommandParts, CommandResult, Terminal } from './command.ts';
import { readCommand } from './commands.ts';

/** More than operators with terminals. */
const MAX_CONNECTIONS = 16;

/** The longest argument is an invoice of a few kilobytes. */
const MAX_REQUEST_BYTES = 64 * 1024;

/** The time in which a client must send its request. */
const REQUEST_TIMEOUT_MS = 30_000;

/** At shutdown, the time for commands in progress to end, and again to notice that they are aborted. */
const LAST_COMMANDS_MS = 1_000;

/** Only the user of the service may connect (0600). */
const OWNER_ONLY_UMASK = 0o177;

/** Stays free on the disk: a service whose database cannot write sees no payments. */
const RESERVE_BYTES = 256 * 1024 * 1024;

/** Bytes that a command may write between two checks of the free space. */
const CHECK_EVERY_BYTES = 4 * 1024 * 1024;

/**
 * Runs commands for `nutpost <command>` beside a service with an embedded database, which only one process
 * can open.
 */
export class ControlSocket {
  readonly #dataDir: string;
  readonly #parts: CommandParts;
  readonly #log: Log;
  readonly #running = new Set<Promise<void>>();
  readonly #server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => {
    const answering = this.#answer(request, response);
    this.#running.add(answering);
    void answering.finally(() => this.#running.delete(answering));
  });

  /** @param options.dataDir a directory that only this process uses */
  constructor(options: { dataDir: string; parts: CommandParts; log: Log }) {
    this.#dataDir = options.dataDir;
    this.#parts = options.parts;
    this.#log = options.log;
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('error', () => undefined);
  }

  /** Starts to listen. If that fails, the service runs without: payments do not need it. */
  async start(): Promise<void> {
    try {
      await this.#listen();
    } catch (error) {
      this.#log.warn(
        { err: error },
        'the control socket cannot be opened: commands such as `nutpost trace` cannot reach this' +
          ' service (a path of more than about 100 bytes is too long: make DATA_DIR shorter)',
      );
    }
  }

  /** Waits for commands in progress, and removes the socket. */
  async stop(): Promise<void> {
    if (!this.#server.listening) {
      return;
    }
    const closed = once(this.#server, 'close');
    this.#server.close();
    const aborting = setTimeout(() => this.#server.closeAllConnections(), LAST_COMMANDS_MS);
    await closed;
    clearTimeout(aborting);
    await Promise.race([Promise.all(this.#running), delay(LAST_COMMANDS_MS, null, { ref: false })]);
  }

  async #listen(): Promise<void> {
    const socketPath = controlSocketPath(this.#dataDir);
    // A killed process leaves its socket behind.
    fs.rmSync(socketPath, { force: true });
    const listening = once(this.#server, 'listening');
    // listen() creates the socket at once, so it never has other permissions.
    const umask = process.umask(OWNER_ONLY_UMASK);
    try {
      this.#server.listen(socketPath);
    } finally {
      process.umask(umask);
    }
    await listening;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const argv = await readArgv(request);
      if (argv === null) {
        reject(response, 400);
      } else {
        await this.#run(argv, response);
      }
    } catch (error) {
      // Without the arguments, which may contain the id of a quote.
      this.#log.error({ err: error }, 'a command of the operator failed');
      reject(response, 500);
    }
  }

  async #run(argv: readonly string[], response: ServerResponse): Promise<void> {
    const terminal = new SpoolingTerminal(response, this.#dataDir);
    try {
      const command = readCommand(argv);
      if (!('run' in command)) {
        await terminal.end(command);
        return;
      }
      const result = await command.run(this.#parts, terminal).catch(toResult);
      this.#log.debug({ command: command.name, exitCode: result.exitCode }, 'ran a command');
      await terminal.end(result);
    } catch (error) {
      if (!terminal.signal.aborted) {
        throw error;
      }
      this.#log.debug({ err: error }, 'the client of a command disconnected');
    } finally {
      await terminal.close();
    }
  }
}

/**
 * Sends the output of a command to its client when the command has ended. Until then the output is in a
 * file: a command may hold the embedded database while it writes, and must not wait for a slow client.
 */
class SpoolingTerminal implements Terminal {
  readonly input = null;
  readonly #response: ServerResponse;
  readonly #dir: string;
  readonly #disconnected = new AbortController();
  #file: fs.promises.FileHandle | null = null;
  #bytesUntilCheck = 0;

  constructor(response: ServerResponse, dir: string) {
    this.#response = response;
    this.#dir = dir;
    response.setHeader('content-type', 'application/x-ndjson');
    response.on('close', () => this.#disconnected.abort());
  }

  get signal(): AbortSignal {
    return this.#disconnected.signal;
  }

  /** @throws OperatorError if the disk is almost full; earlier output is discarded */
  async write(text: string): Promise<void> {
    this.signal.throwIfAborted();
    if (this.#bytesUntilCheck <= 0) {
      await this.#requireSpace();
      this.#bytesUntilCheck = CHECK_EVERY_BYTES;
    }
    this.#bytesUntilCheck -= Buffer.byteLength(text);
    this.#file ??= await openUnnamed(this.#dir);
    await this.#file.appendFile(text);
  }

  progress(line: string): void {
    if (!this.#response.writableNeedDrain) {
      this.#response.write(toLine({ progress: line }));
    }
  }

  async end(result: CommandResult): Promise<void> {
    const output = this.#file?.createReadStream({ start: 0, encoding: 'utf8', autoClose: false });
    for await (const text of output ?? []) {
      await this.#send({ write: text });
    }
    await this.#send({ result });
    this.#response.end();
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }

  async #send(line: ResponseLine): Promise<void> {
    this.signal.throwIfAborted();
    if (!this.#response.write(toLine(line))) {
      await once(this.#response, 'drain', { signal: this.signal });
    }
  }

  async #requireSpace(): Promise<void> {
    const { bavail, bsize } = await fs.promises.statfs(this.#dir);
    if (bavail * bsize < RESERVE_BYTES) {
      await this.close();
      throw new OperatorError(
        'DATA_DIR: has no room for an export or a report; stop the service, and run the command then.',
      );
    }
  }
}

/** Opens a file that disappears with the process. */
async function openUnnamed(dir: string): Promise<fs.promises.FileHandle> {
  const name = path.join(dir, `spool-${randomUUID()}`);
  const file = await fs.promises.open(name, 'wx+', 0o600);
  await fs.promises.unlink(name);
  return file;
}

function toLine(line: ResponseLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** Returns what the operator can fix as a result, as the command line prints it. */
function toResult(error: unknown): CommandResult {
  if (error instanceof OperatorError) {
    return { exitCode: 1, stdout: '', stderr: `${error.message}\n` };
  }
  throw error;
}

/** Returns null if the request is not valid, or the client disconnected. */
async function readArgv(request: IncomingMessage): Promise<string[] | null> {
  if (request.method !== 'POST' || request.url !== '/run') {
    return null;
  }
  try {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) {
      body += chunk;
      if (body.length > MAX_REQUEST_BYTES) {
        return null;
      }
    }
    return runRequest.parse(JSON.parse(body)).argv;
  } catch {
    return null;
  }
}

/** Breaks the response off if it has begun. */
function reject(response: ServerResponse, status: number): void {
  if (response.headersSent) {
    response.destroy();
  } else {
    response.writeHead(status, { connection: 'close' }).end();
  }
}
