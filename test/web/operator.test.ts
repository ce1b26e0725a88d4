import { generateSecretKey, getPublicKey, nip19 } from 'nostr-tools';
import { expect, it } from 'vitest';
import { findUserByPubkey } from '../../src/recipients/user-store.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { RecipientClient } from '../helpers/recipients/recipient-client.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { addNostrExtension, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The operator page, on a phone at night. */

const OPERATOR_KEY = generateSecretKey();
const environment = useTestEnvironment({
  env: { OPERATOR_KEYS: nip19.npubEncode(getPublicKey(OPERATOR_KEY)) },
});
const browser = useBrowser();

async function signIn(secretKey: Uint8Array, expectedStatuses: number[] = []) {
  const page = await browser.openPage(`${environment.origin}/operator`, {
    viewport: { width: 360, height: 640 },
    colorScheme: 'dark',
    expectedStatuses,
    prepare: (newPage) => addNostrExtension(newPage, secretKey),
  });
  await page.getByRole('button', { name: 'Sign in with a browser extension' }).click();
  return page;
}

it('shows an operator a user and a finding, and blocks the user', async () => {
  const user = environment.newWallet();
  await assignUsername(environment.database, user.pubkey, 'dora');
  const page = await signIn(OPERATOR_KEY);
  const trace = section(page, 'Find a payment');
  await trace.getByRole('textbox').fill('dora');
  await trace.getByRole('button', { name: 'Trace' }).click();
  await trace.getByText(user.npub).waitFor();
  await page.getByRole('button', { name: 'Count the payments' }).click();
  await section(page, 'Statistics').getByText('total').waitFor();
  const users = section(page, 'Users');
  await users.getByLabel('npub, key or name').fill('dora');
  await users.getByLabel('Reason of the block').fill('ticket 812');
  await users.getByRole('button', { name: 'Block', exact: true }).click();
  await users.getByText('is blocked').waitFor();
  expect((await findUserByPubkey(environment.database.db, user.pubkey))?.block?.reason).toBe(
    'ticket 812',
  );
  await page.getByRole('button', { name: 'Run the doctor' }).click();
  await section(page, 'Doctor').getByText('DEFAULT_MINT_URL is required').waitFor();
  // Nothing is wider than the screen.
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
});

it('tells others that their key is not an operator', async () => {
  const other = new RecipientClient(environment.origin);
  const page = await signIn(other.secretKey, [404]);
  await section(page, 'Members').getByRole('button', { name: 'List' }).click();
  await page.getByText('This key is not in OPERATOR_KEYS.').waitFor();
});
