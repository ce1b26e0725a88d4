import { type Config, readSystemUser } from '../config.ts';
import { openExistingDatabase } from '../database/database.ts';
import { alertTestCommand } from './alerts/alert-sender.ts';
import { exportCommand, importCommand } from './archive/archive-commands.ts';
import { auditCommand } from './audit-command.ts';
import { backupCommand } from './backup/backup.ts';
import { type CommandHandler, type CommandResult, parseOrExplain, UsageError } from './command.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { importNpubcashCommand } from './import-npubcash/import-npubcash-command.ts';
import { memberCommands } from './member-command.ts';
import type { CommandIo } from './process-io.ts';
import { statsCommand } from './stats-command.ts';
import { traceCommand } from './trace/trace-command.ts';
import { treasuryCommands } from './treasury-command.ts';
import { userCommands } from './user-command.ts';
import { nameCommands } from './username-command.ts';

const COMMANDS = [
  doctorCommand,
  traceCommand,
  statsCommand,
  ...userCommands,
  ...nameCommands,
  ...memberCommands,
  ...treasuryCommands,
  auditCommand,
  alertTestCommand,
  backupCommand,
  exportCommand,
  importCommand,
  importNpubcashCommand,
];

export const COMMAND_WORDS = new Set(COMMANDS.map(({ name }) => name.split(' ')[0]));

export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

/** Parses a command's name, of one or two words, and its arguments. @throws UsageError */
export function parseCommand(argv: readonly string[]): CommandHandler {
  const [word = '', action] = argv;
  const group = COMMANDS.filter(({ name }) => name.split(' ')[0] === word);
  const usage = group.map((command) => command.usage).join('');
  return parseOrExplain(usage, argv, () => {
    const withAction = group.find(({ name }) => name === `${word} ${action}`);
    const command = withAction ?? group.find(({ name }) => name === word);
    if (command === undefined) {
      const names = group.map(({ name }) => `\`${name}\``);
      throw new UsageError(`Give one of these commands: ${names.join(', ')}.`);
    }
    return command.parse(argv.slice(command === withAction ? 2 : 1));
  });
}

/** @throws OperatorError if the database does not exist or cannot be opened */
export async function runOperatorCommand(
  config: Config,
  run: CommandHandler,
  io: CommandIo,
): Promise<CommandResult> {
  const database = await openExistingDatabase(config.database);
  const systemUser = readSystemUser();
  try {
    return await run({ config, db: database.db, systemUser, clock: Date.now }, io);
  } finally {
    await database.close();
  }
}
