/** The part of the setup that a finding is about. */
export type FindingArea = 'settings' | 'database' | 'clock' | 'mint' | 'relay' | 'origin';

/**
 * How much a finding matters. `ok`: as it should be. `warning`: it works, but perhaps not for long or not for
 * everybody. `problem`: something does not work.
 */
export type FindingLevel = 'ok' | 'warning' | 'problem';

/** One result of `nutpost doctor`. */
export interface Finding {
  /** For scripts: it does not change when the text does. docs/operations/doctor.md lists all of them. */
  check: `${FindingArea}.${string}`;
  level: FindingLevel;
  /** One sentence, without its full stop. */
  what: string;
  /** What the operator can do about it; null if nothing needs to be done. */
  advice: string | null;
}

/** Creates a finding of something that is as it should be. */
export function ok(check: Finding['check'], what: string): Finding {
  return { check, level: 'ok', what, advice: null };
}

/** Creates a finding of something that works, but perhaps not for long or not for everybody. */
export function warning(check: Finding['check'], what: string, advice: string): Finding {
  return { check, level: 'warning', what, advice };
}

/** Creates a finding of something that does not work. */
export function problem(check: Finding['check'], what: string, advice: string): Finding {
  return { check, level: 'problem', what, advice };
}
