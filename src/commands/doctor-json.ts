import type { FindingLevel } from '../domain/finding.ts';
import type { Diagnosis } from '../usecases/diagnose/diagnose.ts';
import { iso } from './plain-text.ts';

/** What was found, for programs; advice is absent rather than null. */
export function diagnosisToJson(diagnosis: Diagnosis, nowMs: number): object {
  return {
    asOf: iso(nowMs),
    problems: countOf('problem', diagnosis),
    warnings: countOf('warning', diagnosis),
    findings: diagnosis.flatMap(({ area, findings }) =>
      findings.map(({ advice, ...finding }) => ({
        area,
        ...finding,
        ...(advice === null ? {} : { advice }),
      })),
    ),
  };
}

/** How many findings are of a level. */
export function countOf(level: FindingLevel, diagnosis: Diagnosis): number {
  return diagnosis.flatMap(({ findings }) => findings).filter((each) => each.level === level)
    .length;
}
