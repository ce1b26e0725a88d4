import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { OperatorError } from '../domain/errors.ts';
import type { CommandResult } from './command.ts';
import {
  COMMAND_DEADLINE_MS,
  controlSocketPath,
  MAX_ANSWER_BYTES,
  RUN_PATH,
  readBody,
  runAnswer,
} from './control-protocol.ts';

/**
 * Has a command run by the service that has the database.
 *
 * @param argv the command's name, then its arguments
 * @throws OperatorError where nobody answers at the socket, or not with a result
 */
export async function askService(dataDir: string, argv: readonly string[]): Promise<CommandResult> {
  const socketPath = controlSocketPath(dataDir);
  const response = await post(socketPath, JSON.stringify({ argv })).catch((error: unknown) => {
    const reason = error instanceof Error && 'code' in error ? error.code : error;
    throw new OperatorError(
      `The data directory is in use by another nutpost process, which does not answer at ${socketPath}` +
        ` (${reason}): it may be starting or stopping, so try again in a moment.`,
    );
  });
  const answer = await readAnswer(response);
  if (answer === null) {
    throw new OperatorError(
      `The service at ${socketPath} could not run the command (HTTP ${response.statusCode}); its log says why.`,
    );
  }
  return answer;
}

async function post(socketPath: string, body: string): Promise<IncomingMessage> {
  const asking = request({
    socketPath,
    path: RUN_PATH,
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    agent: false,
    signal: AbortSignal.timeout(COMMAND_DEADLINE_MS),
  });
  asking.end(body);
  const [response] = await once(asking, 'response');
  return response;
}

async function readAnswer(response: IncomingMessage): Promise<CommandResult | null> {
  try {
    return runAnswer.parse(JSON.parse((await readBody(response, MAX_ANSWER_BYTES)) ?? ''));
  } catch {
    return null;
  }
}
