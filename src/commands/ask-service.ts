import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import path from 'node:path';
import { z } from 'zod';
import { OperatorError } from '../domain/errors.ts';
import type { CommandResult, Terminal } from './command.ts';
import { readLines } from './read-lines.ts';

/** Returns the path of the socket on which a service with an embedded database accepts commands. */
export function controlSocketPath(dataDir: string): string {
  return path.join(dataDir, 'control.sock');
}

/** The request, `POST /run`: the name of a command and its arguments. */
export const runRequest = z.object({ argv: z.array(z.string()) });

/** The response is lines of JSON, each for a part of `Terminal`; the last one is the result. */
const responseLine = z.union([
  z.object({ write: z.string() }),
  z.object({ progress: z.string() }),
  z.object({
    result: z.object({ exitCode: z.int(), stdout: z.string(), stderr: z.string() }),
  }),
]);

export type ResponseLine = z.output<typeof responseLine>;

/**
 * Has the service that has the database open run a command.
 *
 * @param argv the name of the command, then its arguments
 * @param terminal its output and progress; it has no input
 * @throws OperatorError if the service does not respond, or the command fails
 */
export async function askService(
  dataDir: string,
  argv: readonly string[],
  terminal: Terminal,
): Promise<CommandResult> {
  const socketPath = controlSocketPath(dataDir);
  const response = await post(socketPath, JSON.stringify({ argv }), terminal.signal).catch(
    (error: unknown) => {
      terminal.signal.throwIfAborted();
      const reason = error instanceof Error && 'code' in error ? error.code : error;
      throw new OperatorError(
        `The data directory is in use by another nutpost process, which does not answer at ${socketPath}` +
          ` (${reason}): it may be starting or stopping, so try again in a moment.`,
      );
    },
  );
  if (response.statusCode !== 200) {
    response.resume();
    throw new OperatorError(
      `The service at ${socketPath} could not run the command (HTTP ${response.statusCode}); see its log.`,
    );
  }
  const result = await readResponse(response, terminal);
  if (result === null) {
    terminal.signal.throwIfAborted();
    throw new OperatorError(
      `The service at ${socketPath} did not complete the command: it was stopped, or its log says why.`,
    );
  }
  return result;
}

async function post(
  socketPath: string,
  body: string,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const headers = { 'content-type': 'application/json', connection: 'close' };
  const options = { socketPath, path: '/run', method: 'POST', headers, agent: false, signal };
  const sending = request(options);
  sending.end(body);
  const [response] = await once(sending, 'response');
  return response;
}

/** Returns null if the response ends, or breaks off, without a result. */
async function readResponse(
  response: IncomingMessage,
  terminal: Terminal,
): Promise<CommandResult | null> {
  for await (const text of readLines(untilError(response))) {
    const line = responseLine.parse(JSON.parse(text));
    if ('result' in line) {
      return line.result;
    }
    if ('write' in line) {
      await terminal.write(line.write);
    } else {
      terminal.progress(line.progress);
    }
  }
  return null;
}

async function* untilError(response: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* response;
  } catch {
    // The caller misses the result.
  }
}
