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
} as const;

type CommonCheck = keyof typeof COMMON_CHECKS;

/** Notes a problem that one of the common checks found. */
export interface CommonFindings {
  note(check: CommonCheck, problem: string): void;
}

/** Collects the problems of a storm. */
export class Findings<Check extends string> implements CommonFindings {
  readonly #sentences: Readonly<Record<string, string>>;
  readonly #problems = new Map<string, string[]>();

  /** @param checks what must be true, one sentence each */
  constructor(checks: Readonly<Record<Check, string>>) {
    this.#sentences = { ...checks, ...COMMON_CHECKS };
  }

  note(check: Check | CommonCheck, problem: string): void {
    const problems = this.#problems.get(check) ?? [];
    problems.push(problem);
    this.#problems.set(check, problems);
  }

  verdicts(): Verdict[] {
    return Object.entries(this.#sentences).map(([check, sentence]) => ({
      sentence,
      problems: this.#problems.get(check) ?? [],
    }));
  }
}
