/** The checks of a run. Each counts as one test. */
export const CHECKS = {
  invoices: 'every invoice has the requested amount and can be paid at the mint',
  served: 'every payer gets an invoice within 60 s of asking',
  listedOnce: "every payment is listed exactly once, in its recipient's list",
  listedSoon: 'payment to list takes less than 120 s at p99',
  nothingElse: 'nothing else is listed',
  notEarly: 'no payment is listed or sent before the mint has it, nor to another recipient',
  facts: 'the list agrees with the mint about every payment',
  order: 'the list is newest first, and a listed payment keeps its time',
  totals: 'totals, pages and `since` agree',
  told: 'every open socket receives an update for every payment and its collection',
  verify: 'verify URLs report paid invoices as settled, and no others',
  dialect: 'every response has the format of its API',
  processes: 'no process logs an error or exits on its own',
  storm: 'the faults happened',
} as const;

type CheckName = keyof typeof CHECKS;

/** A check and the problems it found; none if it passed. */
export interface Verdict {
  sentence: string;
  problems: readonly string[];
}

/** Collects the problems of a run. */
export class Findings<Check extends string = CheckName> {
  readonly #sentences: Readonly<Record<Check, string>>;
  readonly #problems = new Map<Check, string[]>();

  /** @param checks what must be true, one sentence each */
  constructor(checks: Readonly<Record<Check, string>>) {
    this.#sentences = checks;
  }

  note(check: Check, problem: string): void {
    const problems = this.#problems.get(check) ?? [];
    problems.push(problem);
    this.#problems.set(check, problems);
  }

  /** One verdict for each check. */
  verdicts(): Verdict[] {
    const checks = Object.entries(this.#sentences) as [Check, string][];
    return checks.map(([check, sentence]) => ({
      sentence,
      problems: this.#problems.get(check) ?? [],
    }));
  }
}
