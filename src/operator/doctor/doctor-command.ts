import { parseArgs } from 'node:util';
import { redact } from '../../redaction.ts';
import type { CommandResult } from '../command.ts';
import { readArguments } from '../commands.ts';
import { count, lines, toJson } from '../format.ts';
import type { Finding, FindingArea, FindingLevel } from './finding.ts';

/** Its lines in the usage. */
export const DOCTOR_USAGE = `  doctor   checks everything that the service needs, beside a running one or before the first
           start, and says how to fix what is wrong; --json for programs
`;

const TITLES: Readonly<Record<FindingArea, string>> = {
  settings: 'Settings',
  database: 'Database',
  clock: 'Clock',
  mint: 'Mints',
  relay: 'Relays',
  origin: 'Public origins',
};

const LABELS: Readonly<Record<FindingLevel, string>> = {
  ok: 'ok',
  warning: 'WARNING',
  problem: 'PROBLEM',
};

const LABEL_WIDTH = LABELS.problem.length;

/** Reads the arguments of `nutpost doctor`; if they are wrong, returns what to print instead. */
export function readDoctor(args: string[]): { json: boolean } | CommandResult {
  return readArguments(DOCTOR_USAGE, args, () => {
    const json = { type: 'boolean', default: false } as const;
    return parseArgs({ args, options: { json } }).values;
  });
}

/** Renders findings. The exit code is 1 if there are problems; everything is on standard output. */
export function renderFindings(
  findings: readonly Finding[],
  { json }: { json: boolean },
  nowMs: number,
): CommandResult {
  const problems = countOf('problem', findings);
  const report = { nowMs, problems, warnings: countOf('warning', findings), findings };
  const text = json ? `${JSON.stringify(toJson(report), null, 2)}\n` : toText(findings);
  // Findings quote what mints, relays and servers said.
  return { exitCode: problems === 0 ? 0 : 1, stdout: redact(text), stderr: '' };
}

function toText(findings: readonly Finding[]): string {
  const byArea = Map.groupBy(findings, ({ check }) => check.split('.')[0] as FindingArea);
  return lines(
    ...[...byArea].flatMap(([area, ofArea]) => [TITLES[area], ...ofArea.flatMap(toLines), '']),
    `${count(countOf('problem', findings), 'problem')}, ${count(countOf('warning', findings), 'warning')}.`,
  );
}

function toLines({ level, what, advice }: Finding): string[] {
  const indent = ' '.repeat(LABEL_WIDTH);
  return [
    `  ${LABELS[level].padEnd(LABEL_WIDTH)}  ${what}.`,
    ...(advice === null ? [] : [`  ${indent}  -> ${advice}`]),
  ];
}

function countOf(level: FindingLevel, findings: readonly Finding[]): number {
  return findings.filter((each) => each.level === level).length;
}
