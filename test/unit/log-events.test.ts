import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

/** The events in the log and their descriptions for operators, docs/operations/logs.md. */

const ROOT = path.resolve(import.meta.dirname, '../..');

const SOURCES = globSync('src/**/*.ts', { cwd: ROOT }).map((file) => ({
  file,
  text: readFileSync(path.join(ROOT, file), 'utf8'),
}));

const LOG_CALL =
  /\blog(?:\??\.(?:trace|debug|info|warn|error|fatal)|\[[^\]]+\])\(\s*(?<argument>\{\s*\w+)?/g;

/** In a log call, and in the helper that logs mint subscriptions. */
const LITERAL_EVENT = /(?:\{\s*event:\s*|#log\(\s*)'(\w+)'/g;

const MILESTONE_MESSAGES = /const MILESTONE_MESSAGES = \{(.*?)\n\}/s;

const DOCUMENTED_EVENT = /^\| `([a-z_]+)` /gm;

describe('log calls', () => {
  const calls = SOURCES.flatMap(({ file, text }) =>
    [...text.matchAll(LOG_CALL)].map(({ 0: call, groups }) => ({
      call: `${file}: ${call}`,
      field: groups?.['argument']?.replace(/\{\s*/, ''),
    })),
  );

  it('are found', () => {
    expect(calls.length).toBeGreaterThan(30);
  });

  it('have an event as their first field', () => {
    expect(calls.filter(({ field }) => field !== 'event').map(({ call }) => call)).toEqual([]);
  });
});

it('documents every event, and no other', () => {
  const sources = SOURCES.map(({ text }) => text).join('\n');
  const milestones = MILESTONE_MESSAGES.exec(sources)?.[1] ?? '';
  const events = [...findNames(sources, LITERAL_EVENT), ...findNames(milestones, /^ {2}(\w+):/gm)];
  const page = readFileSync(path.join(ROOT, 'docs/operations/logs.md'), 'utf8');
  const documented = findNames(page, DOCUMENTED_EVENT);
  expect(documented.toSorted()).toEqual([...new Set(events)].toSorted());
});

function findNames(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name);
}
