/** The check passed if `problems` is empty. */
export interface CheckResult {
  description: string;
  problems: readonly string[];
}

const COMMON_CHECKS = {
  invoices: 'every payer gets an invoice within 60 s, and can pay it at the mint',
  responseFormat: 'every response matches the API description',
  processes: 'no process logs an error or exits unexpectedly',
  secrets: 'no log contains a secret',
  faults: 'every fault that the storm requires happened',
};

export class CheckRecorder {
  readonly #results: Map<string, { description: string; problems: string[] }>;

  constructor(checks: Readonly<Record<string, string>>) {
    const descriptions = Object.entries({ ...checks, ...COMMON_CHECKS });
    this.#results = new Map(
      descriptions.map(([id, description]) => [id, { description, problems: [] }]),
    );
  }

  addProblem(checkId: string, problem: string): void {
    const result = this.#results.get(checkId);
    if (result === undefined) {
      throw new Error(`unknown check '${checkId}' (problem: ${problem})`);
    }
    result.problems.push(problem);
  }

  results(): CheckResult[] {
    return [...this.#results.values()];
  }
}
