import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { nip19 } from 'nostr-tools';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inspectPage } from '../helpers/web/inspect-page.ts';
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

it('finds what no page may do', async () => {
  const page = await browser.openPage(url);
  for (const [script, problem] of [
    [`fetch('http://other.invalid/')`, 'request to another origin: http://other.invalid/'],
    [`new WebSocket('ws://127.0.0.1:1/')`, 'request to another origin: ws:'],
    [
      `document.body.append(Object.assign(document.createElement('script'), { text: '1' }))`,
      'CSP violation: script-src',
    ],
    [`document.body.setAttribute('style', 'color: red')`, 'CSP violation: style-src'],
    [`setTimeout(() => { throw new Error('oops'); })`, 'uncaught error: oops'],
    [`fetch('/missing')`, 'status of 404'],
    [`alert(1)`, 'dialog: 1'],
    [`__xss('comment')`, 'a hostile text ran: comment'],
    [`fetch('/', { method: 'POST', body: '${NSEC}' })`, 'request with an nsec'],
  ] as const) {
    await page.evaluate(`void (${script})`);
    await expect.poll(() => browser.problems.join('\n')).toContain(problem);
  }
  // After this, the page reports nothing more.
  await page.close();
  browser.problems.length = 0;
});

it('finds inaccessible pages', async () => {
  const page = await browser.openPage(url);
  await page.setContent('<!doctype html><html lang="en"><title>Page</title><h1>Page</h1><input>');
  await expect(inspectPage(page, 'test-browser')).rejects.toThrow(/Form elements must have labels/);
});
