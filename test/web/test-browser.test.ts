import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { nip19 } from 'nostr-tools';
import { encodeQR } from 'qr';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inspectPage } from '../helpers/web/inspect-page.ts';
import { readQrCode } from '../helpers/web/read-qr-code.ts';
import { useBrowser } from '../helpers/web/use-browser.ts';

/** The checks of the other tests: they must find what they look for, on a page with a strict policy. */

const CSP = "default-src 'none'; connect-src *; style-src 'self'; base-uri 'none'";
const NSEC = nip19.nsecEncode(new Uint8Array(32).fill(7));

const server = createServer((request, response) => {
  response.writeHead(request.url === '/' ? 200 : 404, {
    'content-type': 'text/html',
    'content-security-policy': CSP,
  });
  response.end('<!doctype html><html lang="en"><title>Page</title><main><h1>Page</h1></main>');
});
let url: string;
const browser = useBrowser();

beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => server.close());

it.for([
  ['a request to another origin', `fetch('http://other.invalid/')`, 'request to another origin'],
  ['a socket to another origin', `new WebSocket('ws://127.0.0.1:1/')`, 'request to another origin'],
  [
    'an inline script',
    `document.body.append(
      Object.assign(document.createElement('script'), { text: '1' }))`,
    'CSP violation: script-src',
  ],
  [
    'an inline style',
    `document.body.setAttribute('style', 'color: red')`,
    'CSP violation: style-src',
  ],
  ['an uncaught error', `setTimeout(() => { throw new Error('oops'); })`, 'uncaught error: oops'],
  ['a failed request', `fetch('/missing')`, 'status of 404'],
  ['a dialog', `alert(1)`, 'dialog: 1'],
  ['a hostile text', `__xss('comment')`, 'a hostile text ran: comment'],
  [
    'an nsec in a request',
    `fetch('/', { method: 'POST', body: '${NSEC}' })`,
    'request with an nsec',
  ],
] as const)('finds %s', async ([, script, problem]) => {
  const page = await browser.openPage(url);
  await page.evaluate(`void (${script})`);
  await expect.poll(() => browser.problems.join('\n')).toContain(problem);
  // After this, the page reports nothing more.
  await page.close();
  browser.problems.length = 0;
});

it('decodes the QR code on the screen', async () => {
  const page = await browser.openPage(url, { viewport: { width: 300, height: 300 } });
  await page.setContent(encodeQR('lightning:test', 'svg'));
  expect(await readQrCode(page.locator('svg'))).toBe('lightning:test');
});

it('finds inaccessible pages', async () => {
  const page = await browser.openPage(url);
  await inspectPage(page, 'test-browser');
  await page.setContent(
    '<!doctype html><html lang="en"><title>Page</title><main><h1>Page</h1><input>',
  );
  await expect(inspectPage(page, 'test-browser')).rejects.toThrow(/Form elements must have labels/);
});
