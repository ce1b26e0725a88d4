import { expect, it } from 'vitest';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { runOperatorCommand } from '../helpers/service/run-operator-command.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { createInvoice, heading } from '../helpers/web/payment-pages.ts';
import { readLnurl, readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** What the payment page does by itself, without its scripts. */

const environment = useTestEnvironment();
const browser = useBrowser();

function fetchPage(path: string): Promise<Response> {
  return fetch(`${environment.origin}${path}`, { headers: { accept: 'text/html' } });
}

it('leads from the address to a paid invoice', async () => {
  const { npub } = environment.newWallet();
  const { host, origin } = new URL(environment.origin);
  const page = await browser.openPage(`${origin}/${npub}`, { javaScriptEnabled: false });
  expect(await page.locator('#address').textContent()).toBe(`${npub}@${host}`);
  expect(await readLnurl(page.getByRole('img', { name: 'QR' }))).toContain(npub);

  const invoice = await createInvoice(page, 21, 'hello');
  expect(await readQrCode(page.getByRole('img', { name: 'QR' }))).toBe(
    `lightning:${invoice.toUpperCase()}`,
  );
  // What needs a script is hidden.
  expect(await page.getByRole('button').count()).toBe(0);
  expect(await page.getByText('Expires').isVisible()).toBe(false);

  environment.mint.pay(invoice);
  // The page reloads by itself.
  await heading(page, 'Paid').waitFor();
});

it('is not found for unknown, invalid and blocked recipients alike', async () => {
  const { pubkey, npub } = environment.newWallet();
  await assignUsername(environment.database, pubkey, 'blocked');
  const { status } = await fetchPage('/blocked');
  expect(status).toBe(200);
  await runOperatorCommand(environment.database, ['user', 'block', npub]);

  const unknown = await fetchPage('/unknown');
  const unknownBody = await unknown.text();
  expect(unknown.status).toBe(404);
  const headersToCompare = ({ headers }: Response) =>
    [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id');
  for (const path of [
    '/blocked',
    '/BLOCKED',
    `/${npub}`,
    '/npub1xyz',
    '/a%20b',
    '/blocked/invoice/00',
  ]) {
    const response = await fetchPage(path);
    expect(response.status).toBe(404);
    expect(await response.text()).toBe(unknownBody);
    expect(headersToCompare(response)).toEqual(headersToCompare(unknown));
  }
});

it('has a preview for shared links, and headers for browsers', async () => {
  const { npub } = environment.newWallet();
  const { host } = new URL(environment.origin);
  const page = await browser.openPage(`${environment.origin}/${npub}`, {
    javaScriptEnabled: false,
  });
  const readMeta = (property: string) =>
    page.locator(`meta[property="og:${property}"]`).getAttribute('content');
  expect(await readMeta('title')).toContain(`${npub}@${host}`);
  expect(await readMeta('url')).toBe(`${environment.origin}/${npub}`);

  const { headers } = await fetchPage(`/${npub}`);
  const policy = headers.get('content-security-policy');
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain('unsafe');
  const again = await fetch(`${environment.origin}/${npub}`, {
    headers: { accept: 'text/html', 'if-none-match': headers.get('etag') ?? '' },
  });
  expect(again.status).toBe(304);
});
