import { parseArgs } from 'node:util';
import { redact } from '../../redaction.ts';
import { type CommandResult, parseArguments } from '../command.ts';
import { formatCount, formatJson, joinLines } from '../format.ts';
import type { Finding, FindingArea, FindingLevel } from './finding.ts';

export const DOCTOR_USAGE = `  doctor   checks everything that the service needs and says how to fix problems; works before the
           first start and while the service runs; --json for scripts
`;

const AREA_TITLES: Readonly<Record<FindingArea, string>> = {
  settings: 'Settings',
  database: 'Database',
  clock: 'Clock',
  mint: 'Mints',
  relay: 'Relays',
  origin: 'Public origins',
};

const LEVEL_LABELS: Readonly<Record<FindingLevel, string>> = {
  ok: 'ok     ',
  warning: 'WARNING',
  problem: 'PROBLEM',
};

export function parseDoctorArguments(args: string[]): { json: boolean } | CommandResult {
  return parseArguments(DOCTOR_USAGE, args, () => {
    const json = { type: 'boolean', default: false } as const;
    return parseArgs({ args, options: { json } }).values;
  });
}

export function renderFindings(
  findings: readonly Finding[],
  { json }: { json: boolean },
  nowMs: number,
): CommandResult {
  const problemCount = countByLevel('problem', findings);
  const warningCount = countByLevel('warning', findings);
  const report = { nowMs, problemCount, warningCount, findings };
  const text = json ? formatJson(report) : findingsToText(findings);
  // Findings contain parts of untrusted responses from mints, relays and other servers.
  return { exitCode: problemCount === 0 ? 0 : 1, stdout: redact(text), stderr: '' };
}

function findingsToText(findings: readonly Finding[]): string {
  const byArea = Map.groupBy(findings, ({ check }) => check.split('.')[0] as FindingArea);
  const problems = formatCount(countByLevel('problem', findings), 'problem');
  const warnings = formatCount(countByLevel('warning', findings), 'warning');
  return joinLines(
    ...[...byArea].flatMap(([area, areaFindings]) => [
      AREA_TITLES[area],
      ...areaFindings.flatMap(({ level, message, advice }) => [
        `  ${LEVEL_LABELS[level]}  ${message.replace(/\.$/, '')}.`,
        ...(advice === null ? [] : [`           -> ${advice}`]),
      ]),
      '',
    ]),
    `${problems}, ${warnings}.`,
  );
}

function countByLevel(level: FindingLevel, findings: readonly Finding[]): number {
  return findings.filter((finding) => finding.level === level).length;
}
