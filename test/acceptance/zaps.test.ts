import { expect, it, onTestFinished } from 'vitest';
import { startFakeRelay } from '../helpers/relays/start-fake-relay.ts';
import { requestZapInvoice, TEST_ZAP_SECRET_KEY } from '../helpers/relays/zap-requests.ts';
import {
  createTestEnvironment,
  useAdditionalService,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const HOUR_MS = 3_600_000;

it('delivers pending receipts after a restart without zap support', async () => {
  const clock = new TestClock();
  const operatorRelay = await startFakeRelay({ now: clock.now });
  const environment = await createTestEnvironment({
    env: { ZAP_SECRET_KEY: TEST_ZAP_SECRET_KEY, ZAP_RELAYS: operatorRelay.url },
    overrides: { clock: clock.now },
  });
  onTestFinished(() => environment.close());
  const relay = await startFakeRelay();
  await relay.stop();
  const zap = { relays: [relay.url] };
  const { pr } = await requestZapInvoice(environment.origin, environment.newWallet(), zap);
  environment.mint.pay(pr);
  await operatorRelay.waitForEvents(1);
  await environment.service.stop();
  await relay.restart();
  clock.advance(HOUR_MS);
  await useAdditionalService(environment, {}, { clock: clock.now });
  await relay.waitForEvents(1);
  expect([...relay.events]).toEqual([...operatorRelay.events]);
});
