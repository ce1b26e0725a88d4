/** A check and the problems it found; none if it passed. */
export interface Verdict {
  sentence: string;
  problems: readonly string[];
}

/** The checks of every storm. */
const COMMON_CHECKS = {
  served: 'every payer gets an invoice within 60 s of asking, and can pay it at the mint',
  dialect: 'every response has the format of its API',
  processes: 'no process logs an error or exits on its own',
  secrets: 'no log contains a secret',
  storm: 'the faults happened',
};

/** Collects the problems of a storm. */
export class Findings {
  readonly #verdicts: Map<string, { sentence: string; problems: string[] }>;

  /** @param checks what must be true, one sentence each */
  constructor(checks: Readonly<Record<string, string>>) {
    const sentences = Object.entries({ ...checks, ...COMMON_CHECKS });
    this.#verdicts = new Map(
      sentences.map(([check, sentence]) => [check, { sentence, problems: [] }]),
    );
  }

  /** @throws if there is no such check */
  note(check: string, problem: string): void {
    const verdict = this.#verdicts.get(check);
    if (verdict === undefined) {
      throw new Error(`no check is called ${check}; it found: ${problem}`);
    }
    verdict.problems.push(problem);
  }

  verdicts(): Verdict[] {
    return [...this.#verdicts.values()];
  }
}
