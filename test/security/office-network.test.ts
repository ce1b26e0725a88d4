import { expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { type RecipientClient, requestJson } from '../helpers/recipients/recipient-client.ts';
import { DEFAULT_LIMITS_ENV } from '../helpers/service/disabled-limits.ts';
import {
  assignNewTestMint,
  setMint,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const RECIPIENT_COUNT = 200;
const PAYMENTS_PER_RECIPIENT = 5;
const MINUTE_MS = 60_000;

const clock = new TestClock();
const environment = useTestEnvironment({
  mint: { now: clock.now },
  env: DEFAULT_LIMITS_ENV,
  overrides: { clock: clock.now },
});

it.each([
  ['the default mint', false],
  ['a mint that they chose', true],
])(
  'serves 200 recipients at %s, paid five times within an hour from one address, under default settings',
  async (_mint, isChosen) => {
    const recipients = Array.from({ length: RECIPIENT_COUNT }, () => environment.newWallet());
    const mint = isChosen ? await assignNewTestMint(environment.newWallet()) : environment.mint;
    if (isChosen) {
      for (const recipient of recipients) {
        expect((await setMint(recipient, mint.url)).status).toBe(200);
      }
    }
    for (let round = 0; round < PAYMENTS_PER_RECIPIENT; round += 1) {
      const invoices = await Promise.all(recipients.map(requestInvoice));
      for (const invoice of invoices) {
        mint.pay(invoice);
      }
      for (const recipient of recipients) {
        await eventually(async () => expect(await countListed(recipient)).toBe(round + 1));
      }
      clock.advance(12 * MINUTE_MS);
    }
  },
);

async function requestInvoice({ npub, origin }: RecipientClient): Promise<string> {
  const { body } = await requestJson(origin, `/.well-known/lnurlp/${npub}?amount=21000`);
  expect(body).toMatchObject({ pr: expect.any(String) });
  return body.pr;
}

async function countListed(recipient: RecipientClient): Promise<number> {
  const { status, body } = await recipient.get('/api/v2/wallet/quotes?limit=1');
  expect(status).toBe(200);
  return body.metadata.total;
}
