import { expect, it } from 'vitest';
import { MintAnomalyCounter } from '../../../src/mints/mint-anomalies.ts';

it("logs a mint's anomalies each time their count doubles", () => {
  const logEntries: object[] = [];
  const anomalies = new MintAnomalyCounter({
    warn: (fields: object) => logEntries.push(fields),
  } as never);
  for (let i = 0; i < 9; i += 1) {
    anomalies.report('https://a.example', 'state_regression');
  }
  anomalies.report('https://a.example', 'amount_or_invoice_mismatch');
  anomalies.report('https://b.example', 'state_regression');
  const entryFor = (mintUrl: string, anomaly: string, count: number) => ({
    event: 'mint_anomaly',
    mintUrl,
    anomaly,
    count,
  });
  expect(logEntries).toEqual([
    ...[1, 2, 4, 8].map((count) => entryFor('https://a.example', 'state_regression', count)),
    entryFor('https://a.example', 'amount_or_invoice_mismatch', 1),
    entryFor('https://b.example', 'state_regression', 1),
  ]);
});
