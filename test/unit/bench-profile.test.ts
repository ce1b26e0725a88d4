import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { addSelfTimes, type CpuProfile, renderProfile } from '../../bench/harness/profile.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

it('adds up what each function ran itself, in all processes, and leaves out what was idle', () => {
  const profile = profileOf([
    ['insert', 'src/store/quote-store.ts', 3_000],
    ['(idle)', null, 50_000],
    ['insert', 'src/store/quote-store.ts', 2_000],
    ['query', 'node_modules/pg/lib/client.js', 1_000],
  ]);

  const { busyMs, functions } = addSelfTimes([profile, profile]);

  expect(busyMs).toBe(12);
  expect(Object.fromEntries(functions)).toEqual({
    'insert src/store/quote-store.ts:8': 10,
    'query node_modules/pg/lib/client.js:8': 2,
  });
});

it('knows whose each function is', () => {
  const { parts } = addSelfTimes([
    profileOf([
      ['insert', 'src/store/quote-store.ts', 1_000],
      ['lift', 'node_modules/@noble/curves/secp256k1.js', 2_000],
      ['deeper', 'node_modules/pg/node_modules/split2/index.js', 3_000],
      ['(garbage collector)', null, 4_000],
      ['writev', null, 5_000],
      ['emit', 'node:events', 6_000],
    ]),
  ]);

  expect(Object.fromEntries(parts)).toEqual({
    'src/store': 1,
    '@noble/curves': 2,
    split2: 3,
    '(garbage collector)': 4,
    native: 5,
    node: 6,
  });
});

it('prints shares of the work, the greatest first', () => {
  const text = renderProfile([
    profileOf([
      ['insert', 'src/store/quote-store.ts', 1_000],
      ['query', 'node_modules/pg/lib/client.js', 3_000],
    ]),
  ]);

  expect(text.split('\n')).toEqual([
    '4 ms of work in 1 processes, their starts too',
    '   75.0 %  pg',
    '   25.0 %  src/store',
    'of it, the functions themselves:',
    '   75.0 %  query node_modules/pg/lib/client.js:8',
    '   25.0 %  insert src/store/quote-store.ts:8',
  ]);
});

it('says it where a figure started no service that could make one', () => {
  expect(renderProfile([])).toBe('no profile: it started no service');
});

/** @param looks function, its file in this clone, else `node:`, else none, and microseconds since the look before */
function profileOf(looks: [string, string | null, number][]): CpuProfile {
  return {
    nodes: looks.map(([functionName, file], id) => ({
      id,
      callFrame: { functionName, url: urlOf(file), lineNumber: 7 },
    })),
    samples: looks.map((_, id) => id),
    timeDeltas: looks.map(([, , microseconds]) => microseconds),
  };
}

function urlOf(file: string | null): string {
  if (file === null || file.startsWith('node:')) {
    return file ?? '';
  }
  return pathToFileURL(path.join(ROOT, file)).href;
}
