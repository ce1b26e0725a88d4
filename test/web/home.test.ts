import { nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The home page. */

const environment = useTestEnvironment({ env: { USERNAME_PRICE_SAT: '2100' } });
const browser = useBrowser();

async function openHome(options = {}) {
  const page = await browser.openPage(`${environment.origin}/`, options);
  const submit = async (text: string) => {
    await page.getByLabel('Name, npub or address').fill(text);
    await page.getByRole('button', { name: 'Continue' }).click();
  };
  return { page, submit };
}

it('leads to a payment page', async () => {
  const { pubkey, npub } = environment.newWallet();
  await assignUsername(environment.database, pubkey, 'alice');
  const { host } = new URL(environment.origin);
  const { page, submit } = await openHome();
  for (const [text, localPart] of [
    [` Alice@${host} `, 'alice'],
    [`nostr:${npub}`, npub],
  ] as const) {
    await submit(text);
    await page.waitForURL(`**/${localPart}`);
    expect(await page.locator('#address').textContent()).toBe(`${localPart}@${host}`);
    await page.goBack();
  }
});

// The browser's checks after each test also find an nsec in a request.
it('refuses a pasted nsec before it leaves the browser', async () => {
  const { page } = await openHome();
  const field = page.getByLabel('Name, npub or address');
  await field.fill(`nostr:${nip19.nsecEncode(environment.newWallet().secretKey)}`);
  const warning = page.getByRole('alertdialog', { name: 'Never enter it on a web page' });
  await warning.waitFor();
  expect(await field.inputValue()).toBe('');
  await warning.getByRole('button').click();
  await warning.waitFor({ state: 'detached' });
});

it('leads to an error page for an unknown username', async () => {
  const { page, submit } = await openHome({ expectedStatuses: [404] });
  await submit('nobody');
  await page.getByText('There is no page and no recipient at this address.').waitFor();
  await page.getByRole('link', { name: 'Go to the start page' }).click();
  await heading(page, 'Every Nostr key has a Lightning address').waitFor();
});
