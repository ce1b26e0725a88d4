import { once } from 'node:events';
import { expect, it, onTestFinished, vi } from 'vitest';
import { createEgress } from '../../../src/net/egress.ts';

let failures = 0;

vi.mock(import('node:worker_threads'), async (importOriginal) => {
  const original = await importOriginal();
  class Worker extends original.Worker {
    constructor(...args: ConstructorParameters<typeof original.Worker>) {
      if (failures > 0) {
        failures -= 1;
        throw new Error('no more threads');
      }
      super(...args);
    }
  }
  return { ...original, Worker };
});

it('ends what was sent while no thread could be started, although a later request starts one', async () => {
  const egress = createEgress({ allowPrivateNetworks: true, operatorUrls: [] });
  onTestFinished(() => egress.close());
  const url = 'http://127.0.0.1:1';
  failures = 2;
  const closed = once(egress.connect('ws://127.0.0.1:1'), 'close');
  const responses = [1, 2].map(() => egress.createFetch().request({ url }));
  expect(await closed).toEqual([{ reason: 'timed out', status: null }]);
  for (const response of await Promise.all(responses)) {
    expect(response.outcome).toBe('unreachable');
  }
});
