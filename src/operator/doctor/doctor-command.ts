import { parseArgs } from 'node:util';
import { redact } from '../../redaction.ts';
import { type CommandResult, parseArguments } from '../command.ts';
import { formatCount, formatJson, joinLines } from '../format.ts';
import type { Finding, FindingArea } from './finding.ts';

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

export function parseDoctorArguments(args: string[]): { json: boolean } | CommandResult {
  const options = { json: { type: 'boolean', default: false } } as const;
  return parseArguments(DOCTOR_USAGE, args, () => parseArgs({ args, options }).values);
}

export function renderFindings(
  findings: readonly Finding[],
  { json }: { json: boolean },
  nowMs: number,
): CommandResult {
  const count = (level: Finding['level']) =>
    findings.filter((finding) => finding.level === level).length;
  const [problemCount, warningCount] = [count('problem'), count('warning')];
  const byArea = Map.groupBy(findings, ({ check }) => check.split('.')[0] as FindingArea);
  const text = json
    ? formatJson({ nowMs, problemCount, warningCount, findings })
    : joinLines(
        ...[...byArea].flatMap(([area, areaFindings]) => [
          AREA_TITLES[area],
          ...areaFindings.flatMap(findingToLines),
          '',
        ]),
        `${formatCount(problemCount, 'problem')}, ${formatCount(warningCount, 'warning')}.`,
      );
  // Findings contain parts of untrusted responses from mints, relays and other servers.
  return { exitCode: problemCount === 0 ? 0 : 1, stdout: redact(text), stderr: '' };
}

function findingToLines({ level, message, advice }: Finding): string[] {
  const label = level === 'ok' ? 'ok     ' : level.toUpperCase();
  return [
    `  ${label}  ${message.replace(/\.$/, '')}.`,
    ...(advice === null ? [] : [`           -> ${advice}`]),
  ];
}
