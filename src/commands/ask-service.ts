import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { OperatorError } from '../domain/errors.ts';
import type { CommandResult, Terminal } from './command.ts';
import { controlSocketPath, MAX_SILENCE_MS, RUN_PATH, spokenLine } from './control-protocol.ts';
import { readLines } from './read-lines.ts';

/**
 * Has a command run by the service that has the database.
 *
 * @param argv the command's name, then its arguments
 * @param terminal where it speaks meanwhile; it cannot listen there
 * @throws OperatorError where nobody answers at the socket, or not with a result
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
      `The service at ${socketPath} could not run the command (HTTP ${response.statusCode}); its log says why.`,
    );
  }
  const result = await listenTo(response, terminal);
  if (result === null) {
    terminal.signal.throwIfAborted();
    throw new OperatorError(
      `The service at ${socketPath} did not bring the command to its end: it was stopped meanwhile, or its log says why.`,
    );
  }
  return result;
}

async function post(
  socketPath: string,
  body: string,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const asking = request({
    socketPath,
    path: RUN_PATH,
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    agent: false,
    signal,
  });
  asking.end(body);
  const silence = setTimeout(() => asking.destroy(new Silence()), MAX_SILENCE_MS);
  try {
    const [response] = await once(asking, 'response');
    return response;
  } finally {
    clearTimeout(silence);
  }
}

/** @returns null where the answer breaks off, or is none */
async function listenTo(
  response: IncomingMessage,
  terminal: Terminal,
): Promise<CommandResult | null> {
  for await (const line of readLines(beforeSilence(response))) {
    const spoken = spokenLine.parse(JSON.parse(line));
    if ('result' in spoken) {
      return spoken.result;
    }
    if ('write' in spoken) {
      await terminal.write(spoken.write);
    } else {
      terminal.progress(spoken.progress);
    }
  }
  return null;
}

/** What is said, up to a silence that is too long. While it is read slowly, nobody is silent. */
async function* beforeSilence(response: IncomingMessage): AsyncGenerator<Buffer> {
  const limit = () => setTimeout(() => response.destroy(), MAX_SILENCE_MS);
  let silence = limit();
  try {
    for await (const chunk of response) {
      clearTimeout(silence);
      yield chunk;
      silence = limit();
    }
  } catch {
    // Broken off: there is no result then.
  } finally {
    clearTimeout(silence);
  }
}

class Silence extends Error {
  readonly code = 'ETIMEDOUT';
}
