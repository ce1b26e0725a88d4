import { z } from 'zod';
import type { DatabaseFacts } from '../store/examination-store.ts';
import { answer } from './answer.ts';
import { type OperatorCommand, UsageError } from './command.ts';

const facts = z.object({
  version: z.string(),
  versionNumber: z.number(),
  nowMs: z.number(),
  encoding: z.string(),
  isDurable: z.boolean(),
  isReadOnly: z.boolean(),
  canCreateTables: z.boolean(),
  maxConnections: z.number(),
  usedConnections: z.number(),
  missingRights: z.array(z.string()),
  missingMigrations: z.array(z.string()),
  unknownMigrations: z.array(z.string()),
  contents: z
    .object({
      processes: z.number(),
      receiptKey: z.string().nullable(),
      openReceipts: z.number(),
      hasSealed: z.boolean(),
      treasuryKeyId: z.string().nullable(),
      rateLimits: z.unknown(),
      relays: z.array(
        z.object({ url: z.string(), failures: z.number(), lastWord: z.string().nullable() }),
      ),
    })
    .nullable(),
}) satisfies z.ZodType<DatabaseFacts>;

/**
 * How `nutpost doctor` hears of a database that a service has to itself: that service is asked. It is in
 * no usage, for people have `doctor`.
 */
export const databaseFacts: OperatorCommand = {
  name: 'database-facts',
  usage: '',
  read: ([mintUrl, ...relays]) => {
    if (mintUrl === undefined) {
      throw new UsageError('Give a mint, then relays.');
    }
    return async ({ store }) =>
      answer(true, { json: await store.examination.examine({ mintUrl, relays }) });
  },
};

/** Reads what {@link databaseFacts} says. @returns null where it is anything else */
export function parseDatabaseFacts(stdout: string): DatabaseFacts | null {
  try {
    return facts.parse(JSON.parse(stdout));
  } catch {
    return null;
  }
}
