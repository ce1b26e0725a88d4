import { expect, it } from 'vitest';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { openAccount, section } from '../helpers/web/pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

const environment = useTestEnvironment({ env: { RECIPIENTS: 'members', USERNAME_PRICE_SAT: '0' } });
const browser = useBrowser();

it('asks users who are not members for an invitation, and then shows their address', async () => {
  const page = await openAccount(browser, environment.newWallet(), { expectedStatuses: [400] });
  const invitation = section(page, 'Invitation');
  const addresses = section(page, 'Your addresses');
  const code = invitation.getByLabel('This server is for members. Enter an invitation.');
  const join = invitation.getByRole('button', { name: 'Join' });
  expect(await addresses.count()).toBe(0);
  expect(await section(page, 'Username').count()).toBe(0);
  await inspectPage(page, 'account-invitation');
  await code.fill('unknown');
  await join.click();
  await invitation.getByRole('alert').filter({ hasText: 'not valid' }).waitFor();

  const { stdout } = await runOperatorCommand(environment.database, ['member', 'invite']);
  const [, hash = ''] = /(#\S+)/.exec(stdout) ?? [];
  await page.goto(`${environment.origin}/account${hash}`);
  await page.reload();
  expect(await code.inputValue()).toBe(hash.split('=')[1]);
  await join.click();
  await addresses.waitFor();
  await section(page, 'Username').waitFor();
  expect(await invitation.count()).toBe(0);
});

it('says on the home page that the server is for members, and offers no free names', async () => {
  const page = await browser.openPage(environment.origin, { expectedStatuses: [404] });
  await page.getByText('This server is for members.').waitFor();
  const response = await page.goto(`${environment.origin}/unknown`);
  expect(response?.status()).toBe(404);
  expect(await page.getByText('is available').count()).toBe(0);
});
