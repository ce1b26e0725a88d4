import { expect, it } from 'vitest';
import { MintAnomalyCounter } from '../../src/mints/mint-anomalies.ts';

it("logs a mint's anomalies each time their count doubles", () => {
  const logged: object[] = [];
  const anomalies = new MintAnomalyCounter({
    warn: (fields: object) => logged.push(fields),
  } as never);
  for (let time = 0; time < 9; time += 1) {
    anomalies.report('https://a.example', 'state_regression');
  }
  anomalies.report('https://a.example', 'unsolicited_notification');
  anomalies.report('https://b.example', 'state_regression');
  const line = (mintUrl: string, anomaly: string, count: number) => ({
    event: 'mint_anomaly',
    mintUrl,
    anomaly,
    count,
  });
  expect(logged).toEqual([
    ...[1, 2, 4, 8].map((count) => line('https://a.example', 'state_regression', count)),
    line('https://a.example', 'unsolicited_notification', 1),
    line('https://b.example', 'state_regression', 1),
  ]);
});
