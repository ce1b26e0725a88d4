import { once } from 'node:events';
import fs from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { OperatorError } from '../domain/errors.ts';
import type { Log } from '../log.ts';
import { Caller } from './caller.ts';
import type { CommandParts, CommandResult } from './command.ts';
import { readCommand } from './commands.ts';
import {
  controlSocketPath,
  MAX_REQUEST_BYTES,
  MAX_SILENCE_MS,
  RUN_PATH,
  readBody,
  runRequest,
} from './control-protocol.ts';

/** Some operators at some terminals; more is a mistake. */
const MAX_CONNECTIONS = 16;

/** At the end, so long may commands under way take, and as long again to notice that they are to end. */
const LAST_COMMANDS_MS = 1_000;

/** The socket is for the user that the service runs as, and for nobody else (0600). */
const OWNER_ONLY_UMASK = 0o177;

/**
 * Runs the operator's commands for `nutpost <command>`, where the service alone can: the process that
 * has an embedded database has it for itself.
 */
export class ControlSocket {
  readonly #path: string;
  readonly #parts: CommandParts;
  readonly #log: Log;
  readonly #underWay = new Set<Promise<void>>();
  readonly #server = createServer({ requestTimeout: MAX_SILENCE_MS }, (request, response) => {
    const answering = this.#answer(request, response);
    this.#underWay.add(answering);
    void answering.finally(() => this.#underWay.delete(answering));
  });

  /** @param options.dataDir a directory that this process has to itself */
  constructor(options: { dataDir: string; parts: CommandParts; log: Log }) {
    this.#path = controlSocketPath(options.dataDir);
    this.#parts = options.parts;
    this.#log = options.log;
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('error', () => undefined);
  }

  /** Begins to listen. Where that cannot be, the service does without: payments need it not. */
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

  /** Finishes what is under way, and removes the socket. */
  async stop(): Promise<void> {
    if (!this.#server.listening) {
      return;
    }
    const closed = once(this.#server, 'close');
    this.#server.close();
    const hangingUp = setTimeout(() => this.#server.closeAllConnections(), LAST_COMMANDS_MS);
    await closed;
    clearTimeout(hangingUp);
    await Promise.race([
      Promise.all(this.#underWay),
      delay(LAST_COMMANDS_MS, null, { ref: false }),
    ]);
  }

  async #listen(): Promise<void> {
    // What a killed process left behind; no other lives that could be listening there.
    fs.rmSync(this.#path, { force: true });
    const listening = once(this.#server, 'listening');
    // The socket is made within this call, so that it is closed to others from its first moment.
    const umask = process.umask(OWNER_ONLY_UMASK);
    try {
      this.#server.listen(this.#path);
    } finally {
      process.umask(umask);
    }
    await listening;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      if (request.method !== 'POST' || request.url !== RUN_PATH) {
        refuse(response, 404);
        return;
      }
      const argv = await readArgv(request);
      if (argv === null) {
        refuse(response, 400);
        return;
      }
      await this.#run(argv, response);
    } catch (error) {
      // Without its arguments: the id of a quote may be among them.
      this.#log.error({ err: error }, 'a command of the operator failed');
      refuse(response, 500);
    }
  }

  async #run(argv: readonly string[], response: ServerResponse): Promise<void> {
    const caller = new Caller(response, path.dirname(this.#path));
    try {
      const command = readCommand(argv);
      if (!('run' in command)) {
        await caller.end(command);
        return;
      }
      const result = await command.run(this.#parts, caller).catch(inWordsOfTheOperator);
      this.#log.debug({ command: command.name, exitCode: result.exitCode }, 'ran a command');
      await caller.end(result);
    } catch (error) {
      if (!caller.signal.aborted) {
        throw error;
      }
      this.#log.debug({ err: error }, 'whoever gave a command has left before its end');
    } finally {
      await caller.close();
    }
  }
}

/** What the person at the terminal can mend they are told there, as if the command ran beside them. */
function inWordsOfTheOperator(error: unknown): CommandResult {
  if (error instanceof OperatorError) {
    return { exitCode: 1, stdout: '', stderr: `${error.message}\n` };
  }
  throw error;
}

/** Null where it is no command, or whoever asked has left. */
async function readArgv(request: IncomingMessage): Promise<string[] | null> {
  try {
    const body = await readBody(request, MAX_REQUEST_BYTES);
    return body === null ? null : runRequest.parse(JSON.parse(body)).argv;
  } catch {
    return null;
  }
}

/** Where an answer has begun already, it breaks off. */
function refuse(response: ServerResponse, status: number): void {
  if (response.headersSent) {
    response.destroy();
  } else {
    response.writeHead(status, { connection: 'close' }).end();
  }
}
