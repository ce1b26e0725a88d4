/** What must be true of a run: each is one test. */
export const CHECKS = {
  invoices: 'every payer gets an invoice that can be paid at the mint',
  listedOnce: "every payment is listed exactly once, in its owner's list",
  nothingElse: 'nothing else is listed',
  notEarly: 'nothing is listed or told before the mint has it, nor to anybody else',
  facts: 'the list says of every payment what its mint says',
  order: 'the list is newest first, and a listed payment keeps its time',
  totals: 'totals, pages and `since` agree',
  told: 'every live socket was told of every payment and of its collection',
  verify: 'verify urls say settled of what was paid, and of nothing else',
  dialect: 'every answer was in its dialect',
  processes: 'no process logged an error, or ended by itself',
  storm: 'the faults did happen',
} as const;

type CheckName = keyof typeof CHECKS;

/** One thing that must be true, and what speaks against it: nothing where it is. */
export interface Verdict {
  sentence: string;
  problems: readonly string[];
}

/** What a run has found to be wrong. */
export class Findings<Check extends string = CheckName> {
  readonly #sentences: Readonly<Record<Check, string>>;
  readonly #problems = new Map<Check, string[]>();

  /** @param checks what must be true, each as a sentence */
  constructor(checks: Readonly<Record<Check, string>>) {
    this.#sentences = checks;
  }

  note(check: Check, problem: string): void {
    const problems = this.#problems.get(check) ?? [];
    problems.push(problem);
    this.#problems.set(check, problems);
  }

  /** Of everything that must be true. */
  verdicts(): Verdict[] {
    const checks = Object.entries(this.#sentences) as [Check, string][];
    return checks.map(([check, sentence]) => ({
      sentence,
      problems: this.#problems.get(check) ?? [],
    }));
  }
}
