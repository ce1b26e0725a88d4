import { expect, it } from 'vitest';
import { useAdditionalService, useTestEnvironment } from '../helpers/service/test-environment.ts';
import { heading } from '../helpers/web/payment-pages.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** Errors are pages for people, and JSON for programs. */

const environment = useTestEnvironment();
const browser = useBrowser();

async function fetchError(url: string, accept: string) {
  const response = await fetch(url, { headers: { accept } });
  const contentType = response.headers.get('content-type') ?? '';
  const body: unknown = contentType.includes('json') ? await response.json() : null;
  return { status: response.status, contentType, body };
}

it('shows a page for an unknown path, and JSON to programs and for paths of the API', async () => {
  const url = `${environment.origin}/no/such/page`;
  const page = await browser.openPage(url, { expectedStatuses: [404] });
  await heading(page, 'Nothing here').waitFor();
  for (const [path, accept] of [
    ['/no/such/page', 'application/json'],
    ['/no/such/page', '*/*'],
    ['/unknown', 'application/json, text/html;q=0.5'],
    ['/api/v2/unknown', 'text/html'],
    ['/api/v2/unknown', '*/*'],
  ] as const) {
    expect(await fetchError(`${environment.origin}${path}`, accept)).toEqual({
      status: 404,
      contentType: 'application/json; charset=utf-8',
      body: { error: true, code: 'not_found', message: 'Not found.' },
    });
  }
  const lnurl = `${environment.origin}/.well-known/lnurlp/unknown`;
  expect((await fetchError(lnurl, 'text/html')).body).toMatchObject({ status: 'ERROR' });
});

it('asks a visitor who sends too many requests to wait', async () => {
  const { url } = await useAdditionalService(environment, { LIMIT_REQUESTS: '3' });
  // The page, its style sheets and its scripts also count.
  const page = await browser.openPage(`${url}/`, { expectedStatuses: [429] });
  await page.goto(`${url}/`);
  await heading(page, 'Too many requests').waitFor();
  expect(await fetchError(`${url}/`, 'application/json')).toMatchObject({
    status: 429,
    body: { error: true },
  });
});

it('says that a payment is not possible while the mint is unavailable', async () => {
  const { npub } = environment.newWallet();
  const url = `${environment.origin}/${npub}`;
  const page = await browser.openPage(url, { expectedStatuses: [500] });
  await environment.mint.stopListening();
  await page.getByLabel('Amount in sats').fill('21');
  await page.getByRole('button', { name: 'Create invoice' }).click();
  await heading(page, 'Not available right now').waitFor();
  await environment.mint.startListening();
  await page.getByRole('link', { name: 'Try again' }).click();
  await page.getByLabel('Amount in sats').waitFor();
});
