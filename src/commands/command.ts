import type { Clock } from '../domain/clock.ts';
import type { Store } from '../store/store.ts';
import type { ImportNpubcash } from '../usecases/import-npubcash.ts';
import type { Treasury } from '../usecases/treasury.ts';

/** What a command has to say, and how the process that was given it ends. */
export interface CommandResult {
  /** 0: done. 1: it could not be. 2: it was not understood. */
  exitCode: number;
  stdout: string;
  stderr: string;
}

/** What a command works with. */
export interface CommandParts {
  store: Store;
  /** Names that nobody can have, beside the built-in ones. */
  reservedNames: readonly string[];
  /** The operator's ecash; null if there is no treasury secret. */
  treasury: Treasury | null;
  importNpubcash: ImportNpubcash;
  /** Of this program. */
  version: string;
  clock: Clock;
}

/**
 * Where a command that takes long, or tells more than fits into memory, speaks and listens while it works.
 * What there is to say at its end is its {@link CommandResult}.
 */
export interface Terminal {
  /**
   * Adds to standard output.
   *
   * @returns resolves when there is room for more
   */
  write(text: string): Promise<void>;
  /**
   * Tells how far it is, in one line without its end: as often as there is news, because what nobody could
   * read is left out. A person sees it on standard error, each in place of the one before.
   */
  progress(line: string): void;
  /** Standard input. Null where there is none: it is a keyboard, or a service runs the command. */
  input: AsyncIterable<Uint8Array> | null;
  /** Aborted when whoever gave the command has left: nobody hears it any more. */
  signal: AbortSignal;
}

/** Does what was asked for, once there is a database to do it with. */
export type RunCommand = (parts: CommandParts, terminal: Terminal) => Promise<CommandResult>;

/** A command of the operator: `nutpost <name> <arguments>`. */
export interface OperatorCommand {
  name: string;
  /** Its lines in the usage, each indented and ended. */
  usage: string;
  /**
   * Understands the arguments, before anything is opened.
   *
   * @throws UsageError, or what `parseArgs` of node:util throws
   */
  read(args: string[]): RunCommand;
}

/** Arguments that a command cannot be run with. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
