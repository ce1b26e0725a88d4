import type { Clock } from '../../clock.ts';
import type { Config } from '../../config.ts';
import type { Readiness } from '../../database/readiness.ts';
import { type Db, snapshot } from '../../database/transaction.ts';
import { OperatorError } from '../../errors.ts';
import type { RecentErrors } from '../../log.ts';
import type { MintRateLimiter } from '../../mints/mint-rate-limiter.ts';
import { listMintHealth } from '../../mints/mint-store.ts';
import { redact } from '../../redaction.ts';
import { VERSION } from '../../version.ts';
import { listPresentAlerts } from '../alerts/alert-store.ts';
import { type CommandContext, UsageError } from '../command.ts';
import { parseCommand } from '../commands.ts';
import { formatTime } from '../format.ts';
import type { CommandIo } from '../process-io.ts';
import { readStats } from '../report-store.ts';

interface OperatorPageSources {
  config: Config;
  db: Db;
  readiness: Pick<Readiness, 'getStatus'>;
  recentErrors: RecentErrors;
  limiter: Pick<MintRateLimiter, 'countRequests'>;
  clock: Clock;
}

/** What the page may run: what reads a few rows, and changes of members, names and blocks. */
const COMMANDS = [
  'doctor',
  'trace',
  'audit',
  'user list',
  'user show',
  'user block',
  'user unblock',
  'name show',
  'name reserve',
  'name release',
  'name assign',
  'member list',
  'member add',
  'member remove',
];

/** Others could show ids that are as good as money, read files of the server, or read all payments, which blocks SQLite. */
const OPTION = /^--(?:reason|name)(?:=|$)/;

/** Creates what the operator page reads and runs. */
export function createOperatorPage(sources: OperatorPageSources) {
  const { config, db, readiness, recentErrors, limiter, clock } = sources;
  return {
    keys: config.operatorKeys,
    readOverview: async () => {
      const health = await readiness.getStatus();
      const mints = await listMintHealth(db, config.defaultMintUrl, 100);
      // Without ALERT_URL, nothing is checked, and the stored alerts may be over.
      const alerts = config.alertTarget === null ? [] : await listPresentAlerts(db);
      const firstDayMs = clock() - (clock() % DAY_MS) - 29 * DAY_MS;
      const stats = await snapshot(db, (tx) => readStats(tx, 'day', firstDayMs));
      const days = Array.from({ length: 30 }, (_, index) => {
        const period = formatTime(firstDayMs + index * DAY_MS).slice(0, 10);
        return stats.find((day) => day.period === period) ?? { period, payments: 0, sat: 0 };
      });
      return {
        version: VERSION,
        health,
        alerts,
        errors: recentErrors.list(),
        mints: mints.map((mint) => ({ ...mint, ...limiter.countRequests(mint.url) })),
        days,
      };
    },
    runCommand: async (pubkey: string, argv: readonly string[]) => {
      const isOffered = COMMANDS.some((command) => `${argv.join(' ')} `.startsWith(`${command} `));
      const hasOtherOption = argv.some(
        (argument) => argument.startsWith('-') && !OPTION.test(argument),
      );
      if (!isOffered || hasOtherOption) {
        return null;
      }
      const actor = { kind: 'operator', pubkey } as const;
      const context = { config, db, actor, clock };
      const { exitCode, stdout, stderr } = await runOrExplain(argv, context);
      return { exitCode, output: redact(stdout + stderr) };
    },
  };
}

async function runOrExplain(argv: readonly string[], context: CommandContext) {
  try {
    return await parseCommand(argv)(context, NO_IO);
  } catch (error) {
    if (error instanceof UsageError) {
      return error.result;
    }
    if (error instanceof OperatorError) {
      return { exitCode: 1, stdout: '', stderr: error.message };
    }
    throw error;
  }
}

/** None of the commands reads or writes more than its result. */
const NO_IO: CommandIo = {
  stdin: null,
  write: async () => undefined,
  reportProgress: () => undefined,
};

const DAY_MS = 24 * 60 * 60_000;
