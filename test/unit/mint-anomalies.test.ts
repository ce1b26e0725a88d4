import { expect, it } from 'vitest';
import { MintAnomalies } from '../../src/mints/mint-anomalies.ts';

it('logs the anomalies of each mint each time that their count doubles', () => {
  const logged: object[] = [];
  const anomalies = new MintAnomalies({ warn: (fields: object) => logged.push(fields) } as never);
  for (let time = 0; time < 9; time += 1) {
    anomalies.report('https://a.example', 'backwards');
  }
  anomalies.report('https://a.example', 'unasked');
  anomalies.report('https://b.example', 'backwards');
  const line = (mintUrl: string, anomaly: string, count: number) => ({
    event: 'mint_anomaly',
    mintUrl,
    anomaly,
    count,
  });
  expect(logged).toEqual([
    ...[1, 2, 4, 8].map((count) => line('https://a.example', 'backwards', count)),
    line('https://a.example', 'unasked', 1),
    line('https://b.example', 'backwards', 1),
  ]);
});
