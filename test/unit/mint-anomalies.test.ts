import { expect, it } from 'vitest';
import { MintConduct } from '../../src/mint/mint-conduct.ts';

it('what a mint does wrong is counted, and logged each time that the count doubles', () => {
  const lines: unknown[] = [];
  const conduct = new MintConduct({ warn: (fields: object) => lines.push(fields) } as never);
  for (let time = 0; time < 9; time += 1) {
    conduct.report('https://a.example', 'backwards');
  }
  conduct.report('https://a.example', 'unasked', 100);
  conduct.report('https://b.example', 'backwards');
  conduct.report('https://b.example', 'backwards', 0);
  const misconduct = (mintUrl: string, kind: string, count: number) => ({
    mintUrl,
    misconduct: kind,
    count,
  });
  expect(lines).toEqual([
    ...[1, 2, 4, 8].map((count) => misconduct('https://a.example', 'backwards', count)),
    misconduct('https://a.example', 'unasked', 100),
    misconduct('https://b.example', 'backwards', 1),
  ]);
});
