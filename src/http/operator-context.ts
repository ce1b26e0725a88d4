/** What the operator page needs, which the folder of the operator commands implements. */
export interface OperatorContext {
  /** Of the people who may use the page (hex). */
  keys: readonly string[];
  /** Runs a command as this key. Null: the page does not offer this command. */
  runCommand: (
    pubkey: string,
    argv: readonly string[],
  ) => Promise<{ exitCode: number; output: string } | null>;
}
