import { parseArgs } from 'node:util';
import { redact } from '../domain/redaction.ts';
import type { Diagnosis } from '../usecases/diagnose/diagnose.ts';
import type { CommandResult } from './command.ts';
import { understand } from './commands.ts';
import { diagnosisToJson } from './doctor-json.ts';
import { diagnosisToText } from './doctor-text.ts';

/** Its lines in the usage. */
export const DOCTOR_USAGE = `  doctor   looks at everything that the service needs, beside a running one or before the first
           start, and says what to do about what it finds; --json for programs
`;

/** Understands the arguments of `nutpost doctor`, or says what to tell whoever gave them. */
export function readDoctor(args: string[]): { json: boolean } | CommandResult {
  return understand(DOCTOR_USAGE, args, () => {
    const json = { type: 'boolean', default: false } as const;
    return parseArgs({ args, options: { json } }).values;
  });
}

/** Tells what was found: whoever reads standard output finds all of it there, right or wrong. */
export function tellDiagnosis(
  diagnosis: Diagnosis,
  { json }: { json: boolean },
  nowMs: number,
): CommandResult {
  const isWrong = diagnosis.some(({ findings }) =>
    findings.some(({ level }) => level === 'problem'),
  );
  const text = json
    ? `${JSON.stringify(diagnosisToJson(diagnosis, nowMs), null, 2)}\n`
    : diagnosisToText(diagnosis);
  // What mints, relays and servers say of themselves is in it.
  return { exitCode: isWrong ? 1 : 0, stdout: redact(text), stderr: '' };
}
