import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { z } from 'zod';
import type { CommandResult } from './command.ts';

/** How `nutpost <command>` speaks to the service that has the database: `POST /run`, JSON both ways. */

export const RUN_PATH = '/run';

/** The longest argument is an invoice of a few kilobytes. */
export const MAX_REQUEST_BYTES = 64 * 1024;

/** Far more than a command has to say. */
export const MAX_ANSWER_BYTES = 8 * 1024 * 1024;

/** A command is done in moments; a service that takes longer is stuck. */
export const COMMAND_DEADLINE_MS = 30_000;

/** Where the service listens for commands. */
export function controlSocketPath(dataDir: string): string {
  return path.join(dataDir, 'control.sock');
}

/** What is asked: a command's name, then its arguments. */
export const runRequest = z.object({ argv: z.array(z.string()) });

/** What is answered. */
export const runAnswer = z.object({
  exitCode: z.int(),
  stdout: z.string(),
  stderr: z.string(),
}) satisfies z.ZodType<CommandResult>;

/** Reads a body; null where it is longer than it may be. */
export async function readBody(message: IncomingMessage, maxBytes: number): Promise<string | null> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message) {
    size += chunk.length;
    if (size > maxBytes) {
      return null;
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
