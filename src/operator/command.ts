import type { Clock } from '../clock.ts';
import type { Store } from '../store.ts';
import type { Treasury } from '../usernames/treasury.ts';
import { toJson } from './format.ts';

/** What a command prints, and how its process ends. */
export interface CommandResult {
  /** 0: done. 1: not done. 2: wrong arguments. */
  exitCode: number;
  stdout: string;
  stderr: string;
}

interface CommandParts {
  store: Store;
  /** The names of `USERNAME_RESERVED`. */
  reservedNames: readonly string[];
  /** Null if there is no treasury secret. */
  treasury: Treasury | null;
  /** Whether this service sends requests to mints over plain http (development). */
  allowHttpMints: boolean;
  version: string;
  clock: Clock;
}

/** The input and output of a command while it runs; its {@link CommandResult} is printed at the end. */
export interface Terminal {
  /** Appends to standard output. Resolves when there is room for more. */
  write(text: string): Promise<void>;
  /** Shows how far the command is, in one line without its end. Lines that come too fast are left out. */
  progress(line: string): void;
  /** Standard input; null if it is a keyboard. */
  input: AsyncIterable<Uint8Array> | null;
  /** Aborted when the output can no longer be read. */
  signal: AbortSignal;
}

/** Runs a command whose arguments were read. */
export type RunCommand = (parts: CommandParts, terminal: Terminal) => Promise<CommandResult>;

/** A command of the operator: `nutpost <name> <arguments>`. */
export interface OperatorCommand {
  name: string;
  /** Its lines in the usage, each indented and ended. */
  usage: string;
  /**
   * Reads the arguments, before the database is opened.
   *
   * @throws UsageError, or what `parseArgs` of node:util throws
   */
  read(args: string[]): RunCommand;
}

export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Returns the only operand, trimmed. Throws a UsageError if there is none, or another one. */
export function onlyOperand([operand = '', ...others]: string[], problem: string): string {
  if (operand.trim() === '' || others.length > 0) {
    throw new UsageError(problem);
  }
  return operand.trim();
}

/**
 * Returns the result of a command: an object is printed as JSON on standard output, text on standard output
 * if the command did what it was asked for, and on standard error otherwise.
 */
export function answer(isDone: boolean, output: string | object): CommandResult {
  const exitCode = isDone ? 0 : 1;
  if (typeof output === 'object') {
    return { exitCode, stdout: `${JSON.stringify(toJson(output), null, 2)}\n`, stderr: '' };
  }
  return isDone
    ? { exitCode, stdout: output, stderr: '' }
    : { exitCode, stdout: '', stderr: output };
}
