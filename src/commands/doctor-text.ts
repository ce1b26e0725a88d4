import type { Finding, FindingLevel } from '../domain/finding.ts';
import type { Area, Diagnosis } from '../usecases/diagnose/diagnose.ts';
import { countOf } from './doctor-json.ts';
import { count, lines } from './plain-text.ts';

const TITLES: Readonly<Record<Area, string>> = {
  settings: 'Settings',
  database: 'Database',
  clock: 'Clock',
  names: 'Names of hosts',
  mints: 'Mints',
  relays: 'Relays',
  origins: 'The way here',
};

const LABELS: Readonly<Record<FindingLevel, string>> = {
  ok: 'ok',
  note: 'note',
  warning: 'WARNING',
  problem: 'PROBLEM',
};

const LABEL_WIDTH = LABELS.problem.length;

/** What was found, for a person: lines of text, each ended. */
export function diagnosisToText(diagnosis: Diagnosis): string {
  const areas = diagnosis.filter(({ findings }) => findings.length > 0);
  return lines(
    ...areas.flatMap(({ area, findings }) => [
      TITLES[area],
      ...findings.flatMap(findingInLines),
      '',
    ]),
    `${count(countOf('problem', diagnosis), 'problem')}, ${count(countOf('warning', diagnosis), 'warning')}.`,
  );
}

function findingInLines({ level, what, advice }: Finding): string[] {
  const blank = ' '.repeat(LABEL_WIDTH);
  return [
    `  ${LABELS[level].padEnd(LABEL_WIDTH)}  ${what}.`,
    ...(advice === null ? [] : [`  ${blank}  -> ${advice}`]),
  ];
}
