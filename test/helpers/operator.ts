import type { CommandResult } from '../../src/commands/command.ts';
import { readCommand } from '../../src/commands/commands.ts';
import type { Database } from '../../src/database/database.ts';
import { Store } from '../../src/store/store.ts';
import { ImportNpubcash } from '../../src/usecases/import-npubcash.ts';
import { VERSION } from '../../src/version.ts';
import { allHeard } from './heard.ts';
import { TestTerminal } from './test-terminal.ts';

/** How an operator's commands are run on a database, without a process for each. */
export interface OperatorOptions {
  clock?: () => number;
  reservedNames?: readonly string[];
  /** Where it speaks and listens meanwhile. */
  terminal?: TestTerminal;
}

/**
 * Runs a command of the operator, given by its name and its arguments; all who listen have heard of what it
 * changed then.
 */
export async function operate(
  database: Database,
  argv: readonly string[],
  { clock = Date.now, reservedNames = [], terminal = new TestTerminal() }: OperatorOptions = {},
): Promise<CommandResult> {
  const command = readCommand(argv);
  const store = new Store(database.db);
  const importNpubcash = npubcashImport(store, clock);
  const treasury = null;
  const parts = { store, clock, reservedNames, treasury, importNpubcash, version: VERSION };
  const result = 'run' in command ? await command.run(parts, terminal) : command;
  await allHeard(database);
  return result;
}

/** Imports an npubcash server into a service that allows private networks. */
export function npubcashImport(store: Store, clock: () => number): ImportNpubcash {
  return new ImportNpubcash({ store, clock, allowHttp: true });
}
