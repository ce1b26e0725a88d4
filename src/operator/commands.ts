import { type CommandConfig, readSystemUser } from '../config.ts';
import { openExistingDatabase } from '../database/database.ts';
import type { Db } from '../database/transaction.ts';
import { MintPolicy } from '../mints/mint-policy.ts';
import type { AuditActor } from '../recipients/audit-store.ts';
import { createTreasurySealer } from '../usernames/usernames-module.ts';
import { alertCommand } from './alerts/alert-command.ts';
import { exportCommand, importCommand } from './archive/archive-commands.ts';
import { auditCommand } from './audit-command.ts';
import {
  type CommandContext,
  type CommandHandler,
  type CommandIo,
  type CommandResult,
  type OperatorCommand,
  type ParsedArguments,
  parseArguments,
} from './command.ts';
import { importNpubcashCommand } from './import-npubcash/import-npubcash-command.ts';
import { memberCommand } from './member-command.ts';
import { paymentsCommand } from './payments-command.ts';
import { statsCommand } from './stats-command.ts';
import { traceCommand } from './trace/trace-command.ts';
import { treasuryCommand } from './treasury-command.ts';
import { userCommand } from './user-command.ts';
import { nameCommand } from './username-command.ts';

const COMMANDS: readonly OperatorCommand[] = [
  traceCommand,
  paymentsCommand,
  statsCommand,
  userCommand,
  nameCommand,
  memberCommand,
  treasuryCommand,
  auditCommand,
  alertCommand,
  exportCommand,
  importCommand,
  importNpubcashCommand,
];

export const COMMANDS_USAGE = COMMANDS.map(({ usage }) => usage).join('');

/** Parses a command's name and arguments. Returns null if no command has this name. */
export function parseCommand(argv: readonly string[]): ParsedArguments<CommandHandler> | null {
  const [name, ...args] = argv;
  const command = COMMANDS.find((candidate) => candidate.name === name);
  return command ? parseArguments(command.usage, args, () => command.parse(args)) : null;
}

/** @throws OperatorError if the database does not exist or cannot be opened */
export async function runOperatorCommand(
  config: CommandConfig,
  run: CommandHandler,
  io: CommandIo,
): Promise<CommandResult> {
  // Queries that fail throw the same errors.
  const ignoreConnectionError = () => undefined;
  const database = await openExistingDatabase(config.database, ignoreConnectionError);
  const actor = { kind: 'command', systemUser: readSystemUser() } as const;
  try {
    return await run(createCommandContext(config, database.db, actor), io);
  } finally {
    await database.close();
  }
}

export function createCommandContext(
  config: CommandConfig,
  db: Db,
  actor: AuditActor,
): CommandContext {
  const { allowPrivateNetworks, defaultMintUrl, defaultLockQuotes } = config;
  return {
    db,
    actor,
    reservedNames: config.usernames.reserved,
    openTreasury: () => ({ db, sealer: createTreasurySealer(config), actor, clock: Date.now }),
    allowHttpMints: allowPrivateNetworks,
    usernameGraceMs: config.usernames.graceMs,
    publicOrigin: config.publicOrigins[0] ?? `http://localhost:${config.port}`,
    mintPolicy: new MintPolicy({
      defaultMintUrl,
      usernameMintUrl: defaultMintUrl,
      zapMintUrls: null,
      allowedMintUrls: config.allowedMints,
      allowPrivateNetworks,
    }),
    recipientDefaults: { mintUrl: defaultMintUrl, lockQuotes: defaultLockQuotes },
    alertTarget: config.alertTarget,
    clock: Date.now,
  };
}
