import { expect, it } from 'vitest';
import { MintAnomalyCounter } from '../../../src/mints/mint-anomalies.ts';

it("logs a mint's anomalies each time their count doubles", () => {
  const logged: string[] = [];
  const anomalies = new MintAnomalyCounter({
    warn: (fields: Record<string, unknown>) =>
      logged.push(`${fields.event} ${fields.mintUrl} ${fields.anomaly} ${fields.count}`),
  } as never);
  for (let i = 0; i < 9; i += 1) {
    anomalies.count('a', 'state_regression');
  }
  anomalies.count('a', 'amount_or_invoice_mismatch');
  anomalies.count('b', 'state_regression');
  expect(logged).toEqual([
    ...[1, 2, 4, 8].map((count) => `mint_anomaly a state_regression ${count}`),
    'mint_anomaly a amount_or_invoice_mismatch 1',
    'mint_anomaly b state_regression 1',
  ]);
});
