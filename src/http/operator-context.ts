/** What the operator page shows at first. */
export interface OperatorOverview {
  version: string;
  /** As `/health/ready` returns it. */
  health: { status: string; checks: Readonly<Record<string, string>> };
  /** Problems that ALERT_URL reports. */
  alerts: { sinceMs: number; text: string }[];
  /** Of this process, since its start. The newest first. */
  errors: { time: string; event: string; message: string }[];
  /** The default mint, then those that fail. `requests` and `failures` are those of this process since its start. */
  mints: {
    url: string;
    answeredAtMs: number | null;
    failingSinceMs: number | null;
    failure: string | null;
    requests: number;
    failures: number;
  }[];
  /** By UTC date, the oldest first. */
  days: { period: string; payments: number; sat: number }[];
}

/** What the operator page needs, which the folder of the operator commands implements. */
export interface OperatorContext {
  /** Of the people who may use the page (hex). */
  keys: readonly string[];
  readOverview: () => Promise<OperatorOverview>;
  /** Runs a command as this key. Null: the page does not offer this command. */
  runCommand: (
    pubkey: string,
    argv: readonly string[],
  ) => Promise<{ exitCode: number; output: string } | null>;
}
