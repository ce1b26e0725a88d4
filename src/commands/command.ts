import type { Clock } from '../domain/clock.ts';
import type { Store } from '../store/store.ts';
import type { ShowTreasury } from '../usecases/show-treasury.ts';
import type { WithdrawTreasury } from '../usecases/withdraw-treasury.ts';

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
  /** The operator's money; null where there is no treasury secret, and so no money. */
  treasury: { show: ShowTreasury; withdraw: WithdrawTreasury } | null;
  clock: Clock;
}

/** Does what was asked for, once there is a database to do it with. */
export type RunCommand = (parts: CommandParts) => Promise<CommandResult>;

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
