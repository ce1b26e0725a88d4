/** What is there at once, or comes: to wait for what is there takes a promise and a turn of the queue. */
export type Soon<T> = T | Promise<T>;

/** Goes on with a value: at once where it is there. */
export function whenThere<T, Result>(
  soon: Soon<T>,
  goOn: (value: T) => Soon<Result>,
): Soon<Result> {
  return soon instanceof Promise ? soon.then(goOn) : goOn(soon);
}
