import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '../..');

const SOURCES = globSync('src/**/*.ts', { cwd: ROOT }).map((file) => ({
  file,
  text: readFileSync(path.join(ROOT, file), 'utf8'),
}));

const LOG_CALL =
  /\blog(?:\??\.(?:trace|debug|info|warn|error|fatal)|\[[^\]]+\])\(\s*(?<argument>\{\s*\w+)?/g;

/** Matches log calls, and calls of the `#log` method that logs mint subscriptions. */
const LITERAL_EVENT = /(?:\{\s*event:\s*|#log\(\s*|const event = )'(\w+)'/g;

const MILESTONE_MESSAGES = /const MILESTONE_MESSAGES = \{(.*?)\n\}/s;

const DOCUMENTED_EVENT = /^\| `([a-z_]+)` /gm;

describe('a log call in src', () => {
  const logCalls = SOURCES.flatMap(({ file, text }) =>
    [...text.matchAll(LOG_CALL)].map(({ 0: call, groups }) => ({
      call: `${file}: ${call}`,
      firstField: groups?.['argument']?.replace(/\{\s*/, ''),
    })),
  );

  it('is found by the pattern of this test', () => {
    expect(logCalls.length).toBeGreaterThan(30);
  });

  it('has an event as its first field', () => {
    expect(
      logCalls.filter(({ firstField }) => firstField !== 'event').map(({ call }) => call),
    ).toEqual([]);
  });
});

it('documents exactly the logged events in docs/operations/logs.md', () => {
  const sources = SOURCES.map(({ text }) => text).join('\n');
  const milestoneLines = MILESTONE_MESSAGES.exec(sources)?.[1] ?? '';
  const events = [
    ...findNames(sources, LITERAL_EVENT),
    ...findNames(milestoneLines, /^ {2}(\w+):/gm),
  ];
  const page = readFileSync(path.join(ROOT, 'docs/operations/logs.md'), 'utf8');
  const documentedEvents = findNames(page, DOCUMENTED_EVENT);
  expect(documentedEvents.toSorted()).toEqual([...new Set(events)].toSorted());
});

function findNames(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name);
}
