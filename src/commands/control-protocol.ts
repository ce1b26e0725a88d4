import type { IncomingMessage } from 'node:http';
import path from 'node:path';
import { z } from 'zod';
import type { CommandResult } from './command.ts';

/**
 * How `nutpost <command>` speaks to the service that has the database: `POST /run` with JSON. The answer is
 * lines of JSON, as the command speaks; its result is the last.
 */

export const RUN_PATH = '/run';

/** The longest argument is an invoice of a few kilobytes. */
export const MAX_REQUEST_BYTES = 64 * 1024;

/** A command is done in moments, or tells how far it is; a service that is silent for longer is stuck. */
export const MAX_SILENCE_MS = 30_000;

/** Where the service listens for commands. */
export function controlSocketPath(dataDir: string): string {
  return path.join(dataDir, 'control.sock');
}

/** What is asked: a command's name, then its arguments. */
export const runRequest = z.object({ argv: z.array(z.string()) });

const result = z.object({
  exitCode: z.int(),
  stdout: z.string(),
  stderr: z.string(),
}) satisfies z.ZodType<CommandResult>;

/** A line of the answer, by the part of `Terminal` that it is for; `result` is the last one. */
export const spokenLine = z.union([
  z.object({ write: z.string() }),
  z.object({ progress: z.string() }),
  z.object({ result }),
]);

export type SpokenLine = z.output<typeof spokenLine>;

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
