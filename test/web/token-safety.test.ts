import { beforeAll, expect, it } from 'vitest';
import { eventually } from '../helpers/eventually.ts';
import { EcashPayer } from '../helpers/recipients/ecash-payer.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';
import { openAccount, section } from '../helpers/web/account-page.ts';
import { heading } from '../helpers/web/payment-pages.ts';
import { type OpenPageOptions, useBrowser } from '../helpers/web/use-browser.ts';

/** A token that a user pastes to buy a username is money: the page keeps it until it is spent. */

const PRICE_SAT = 16;

/** Longer than the pause before the recovery job tries again, but not too long for signatures. */
const RECOVERY_BACKOFF_MS = 20_000;

const clock = new TestClock();
const environment = useTestEnvironment({
  env: { USERNAME_PRICE_SAT: String(PRICE_SAT) },
  overrides: { clock: clock.now },
});
const browser = useBrowser();
let payer: EcashPayer;

beforeAll(async () => {
  payer = await EcashPayer.open(environment.mint);
});

/** Signs in, and chooses a name, so that the page asks for a token. */
async function openPaymentStep(name: string, { expectedStatuses = [] }: OpenPageOptions = {}) {
  const page = await openAccount(browser, environment.newWallet(), {
    expectedStatuses: [402, ...expectedStatuses],
  });
  await page.getByRole('textbox', { name: 'Username' }).fill(name);
  await page.getByRole('button', { name: 'Buy this name' }).click();
  await heading(page, `Pay for ${name}@`).waitFor();
  return { page, tokenField: page.getByLabel('Token from your wallet') };
}

it('keeps the token if a secret key is pasted beside it', async () => {
  const { page, tokenField } = await openPaymentStep('careful');
  const token = await payer.mintToken(PRICE_SAT);
  await tokenField.fill(`${token} nsec1${'q'.repeat(58)}`);
  await page.getByRole('alertdialog').waitFor();
  expect((await tokenField.inputValue()).trim()).toBe(token);
});

it('keeps a second token if the first one pays for the name', async () => {
  const { page, tokenField } = await openPaymentStep('frugal', { expectedStatuses: [409, 503] });
  const [first, second] = [await payer.mintToken(PRICE_SAT), await payer.mintToken(PRICE_SAT)];
  const buyButton = page.getByRole('button', { name: 'Buy', exact: true });
  // The mint spends the token, but its response is lost.
  environment.mint.switches.chaos = {
    rates: {},
    ratesByRoute: { 'POST /v1/swap': { cutAfter: 1 }, 'POST /v1/checkstate': { error: 1 } },
  };
  await tokenField.fill(first);
  await buyButton.click();
  await page.getByRole('alert').getByText('in progress').waitFor();

  await tokenField.fill(second);
  await buyButton.click();
  await page.getByRole('alert').getByText('Take it back into your wallet').waitFor();

  environment.mint.switches.chaos = null;
  clock.advance(RECOVERY_BACKOFF_MS);
  const username = section(page, 'Username');
  await eventually(async () => {
    await buyButton.click();
    await username.getByRole('status').getByText('frugal@').waitFor({ timeout: 2_000 });
  });
  expect(await payer.fetchTokenState(second)).toBe('UNSPENT');
  await username.getByText(second).waitFor();

  // The second token buys the next name, and then it is spent.
  await page.getByRole('textbox', { name: 'Username' }).fill('frugaltwo');
  await page.getByRole('button', { name: 'Buy this name' }).click();
  await heading(page, 'Pay for frugaltwo@').waitFor();
  expect(await tokenField.inputValue()).toBe(second);
  await buyButton.click();
  await username.getByRole('status').getByText('frugaltwo@').waitFor();
  expect(await payer.fetchTokenState(second)).toBe('SPENT');
  expect(await username.getByText(second).count()).toBe(0);
});
