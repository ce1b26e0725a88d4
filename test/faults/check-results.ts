/** A check and the problems it found. Empty `problems`: it passed. */
export interface CheckResult {
  description: string;
  problems: readonly string[];
}

/** Checks that every storm makes. */
const COMMON_CHECKS = {
  invoices: 'every payer gets an invoice within 60 s, and can pay it at the mint',
  responseFormat: 'every response matches the API description',
  processes: 'no process logs an error or exits unexpectedly',
  secrets: 'no log contains a secret',
  faults: 'the storm had all the faults that it needs',
};

/** Collects the problems of a storm. */
export class CheckResults {
  readonly #results: Map<string, { description: string; problems: string[] }>;

  /** @param checks one sentence for each check, by its id */
  constructor(checks: Readonly<Record<string, string>>) {
    const descriptions = Object.entries({ ...checks, ...COMMON_CHECKS });
    this.#results = new Map(
      descriptions.map(([check, description]) => [check, { description, problems: [] }]),
    );
  }

  /** @throws Error if the check is unknown */
  addProblem(check: string, problem: string): void {
    const result = this.#results.get(check);
    if (result === undefined) {
      throw new Error(`unknown check '${check}' (problem: ${problem})`);
    }
    result.problems.push(problem);
  }

  results(): CheckResult[] {
    return [...this.#results.values()];
  }
}
