/**
 * How much a finding matters. `ok`: as it should be. `note`: worth knowing. `warning`: it works, and may
 * not for long or not for everybody. `problem`: something does not work.
 */
export type FindingLevel = 'ok' | 'note' | 'warning' | 'problem';

/** One thing that `nutpost doctor` looked at. */
export interface Finding {
  level: FindingLevel;
  /** For programs; it stays the same when the words change. */
  code: string;
  /** A sentence without a full stop, or several. */
  what: string;
  /** What to do about it; null where there is nothing to do. */
  advice: string | null;
}

/** It is as it should be. */
export function ok(code: string, what: string): Finding {
  return { level: 'ok', code, what, advice: null };
}

/** It is worth knowing. */
export function note(code: string, what: string, advice: string | null = null): Finding {
  return { level: 'note', code, what, advice };
}

/** It works, and may not for long or not for everybody. */
export function warning(code: string, what: string, advice: string): Finding {
  return { level: 'warning', code, what, advice };
}

/** It does not work. */
export function problem(code: string, what: string, advice: string): Finding {
  return { level: 'problem', code, what, advice };
}
