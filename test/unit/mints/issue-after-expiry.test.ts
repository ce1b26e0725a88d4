import { expect, it } from 'vitest';
import { isKnownToIssueAfterExpiry } from '../../../src/mints/issue-after-expiry.ts';

it.each([
  ['cdk-mintd/0.18.3', true],
  ['Nutshell/0.20.2', true],
  ['Nutshell/0.21.0', true],
  ['Nutshell/0.21.1', false],
  ['Nutshell/0.22.0', false],
  ['Nutshell/0.2.0', false],
  ['Other cdk-mintd/1', false],
  [null, false],
])('returns for %s whether it issues quotes after their expiry: %s', (version, expected) => {
  expect(isKnownToIssueAfterExpiry(version)).toBe(expected);
});
