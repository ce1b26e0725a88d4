/**
 * Has work done one piece after another, in the order in which it comes, as far as none waits for longer than a
 * time: a piece that is kept waiting by somebody else must not keep back all that come behind it.
 */
export class OneByOne {
  readonly #patienceMs: number;
  /** Resolves when the piece that came last is over; it is told of no error. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param patienceMs the longest that a piece waits for those before it */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** @throws what the work throws */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#turn().then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  #turn(): Promise<unknown> {
    const outOfPatience = Promise.withResolvers<void>();
    const timer = setTimeout(outOfPatience.resolve, this.#patienceMs);
    const before = this.#last.then(() => clearTimeout(timer));
    return Promise.race([before, outOfPatience.promise]);
  }
}
