import { parseArgs } from 'node:util';
import type { Finding, FindingArea, FindingLevel } from '../domain/finding.ts';
import { redact } from '../domain/redaction.ts';
import type { CommandResult } from './command.ts';
import { understand } from './commands.ts';
import { count, iso, lines } from './plain-text.ts';

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
  return understand(DOCTOR_USAGE, args, () => {
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
  const text = json ? toJson(findings, nowMs) : toText(findings);
  // Findings quote what mints, relays and servers said.
  return {
    exitCode: countOf('problem', findings) === 0 ? 0 : 1,
    stdout: redact(text),
    stderr: '',
  };
}

function toJson(findings: readonly Finding[], nowMs: number): string {
  const report = {
    asOf: iso(nowMs),
    problems: countOf('problem', findings),
    warnings: countOf('warning', findings),
    findings: findings.map(({ advice, ...finding }) => ({
      ...finding,
      ...(advice !== null && { advice }),
    })),
  };
  return `${JSON.stringify(report, null, 2)}\n`;
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
