import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REVERSE_PROXIES } from '../../scripts/reverse-proxy.ts';
import { sendRawBytes, sendRawRequest } from '../helpers/raw-http.ts';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { TestQuoteSocket, TestWallet } from '../helpers/test-wallet.ts';
import {
  requestThroughProxy,
  startTwoDomainService,
  type TwoDomainService,
} from '../helpers/two-domain-service.ts';

/**
 * Public URLs are always on one of our origins: on the origin of the request if it is ours, otherwise on the
 * canonical one.
 */

const STRANGER = 'evil.example';

const SOCKET = '/api/v2/ws/quote';

const ONE = 'https://one.example';
const TWO = 'https://two.example';
const SIX = 'https://[2001:db8::6]';
const PUBLIC_ORIGINS = [ONE, TWO, SIX].join(',');

const world = useTestEnvironment({ env: { PUBLIC_ORIGINS } });

describe.each(REVERSE_PROXIES)('behind %s', (kind) => {
  let domains: TwoDomainService;

  beforeAll(async () => {
    domains = await startTwoDomainService(world, kind, { shouldAddHttpOrigin: true });
  });
  afterAll(() => domains?.close());

  /** The origin of the callback that a request on `two.example` gets, or `nothing`. */
  async function originAnswered(
    headers: Record<string, string> = {},
    toTarget: (path: string) => string = (path) => path,
  ): Promise<string> {
    const path = `/.well-known/lnurlp/${world.newWallet().npub}`;
    const answer = await requestThroughProxy(domains.secondOrigin, toTarget(path), { headers });
    expect(answer.text).not.toContain(STRANGER);
    return answer.text.includes('"callback"')
      ? JSON.parse(answer.text).callback.replace(path, '')
      : 'nothing';
  }

  it.each<[string, (one: string) => Record<string, string>]>([
    ['X-Forwarded-Host', () => ({ 'x-forwarded-host': STRANGER })],
    ['X-Forwarded-Host with another domain of ours', (one) => ({ 'x-forwarded-host': one })],
    ['X-Forwarded-Proto', () => ({ 'x-forwarded-proto': 'http' })],
    ['Forwarded', (one) => ({ forwarded: `host=${one};proto=http` })],
    ['X-Original-Host', (one) => ({ 'x-original-host': one, 'x-host': one })],
  ])('ignores %s', async (_name, headersFor) => {
    const headers = headersFor(new URL(domains.canonicalOrigin).host);
    expect(await originAnswered(headers)).toBe(domains.secondOrigin);
  });

  it('accepts a host in capitals, and a target with its origin', async () => {
    const host = new URL(domains.secondOrigin).host.toUpperCase();
    expect(await originAnswered({ host })).toBe(domains.secondOrigin);
    expect(await originAnswered({}, (path) => `${domains.secondOrigin}${path}`)).toBe(
      domains.secondOrigin,
    );
  });

  it('gives an unknown host the canonical origin', async () => {
    // Caddy serves its configured names only.
    const origin = kind === 'caddy' ? 'nothing' : domains.canonicalOrigin;
    expect(await originAnswered({ host: STRANGER })).toBe(origin);
    expect(await originAnswered({ host: `two.example.${STRANGER}` })).toBe(origin);
  });

  it('never returns the host of a request target that is not ours', async () => {
    const answered = await originAnswered({}, (path) => `https://${STRANGER}${path}`);
    expect([domains.canonicalOrigin, domains.secondOrigin, 'nothing']).toContain(answered);
  });
});

describe('a service without a trusted proxy', () => {
  const npub = new TestWallet(ONE).npub;
  const PATH = `/.well-known/lnurlp/${npub}`;

  it.each<[string, Record<string, string>, string]>([
    ['one of ours', { host: 'two.example' }, TWO],
    ['one of ours in capitals', { host: 'TWO.Example' }, TWO],
    ['one of ours with its default port', { host: 'two.example:443' }, TWO],
    ['one of ours with a final dot', { host: 'two.example.' }, TWO],
    ['our IPv6 address', { host: '[2001:DB8::6]:443' }, SIX],
    ['one of ours at another port', { host: 'two.example:8443' }, ONE],
    ['a stranger', { host: STRANGER }, ONE],
    ['one that ends like ours', { host: `evil-two.example` }, ONE],
    ['one that begins like ours', { host: `two.example.${STRANGER}` }, ONE],
    ['no host at all', { host: '"><script>' }, ONE],
    ['two hosts', { host: `two.example, ${STRANGER}` }, ONE],
    ['nobody', { host: '' }, ONE],
    [
      'ours, with another X-Forwarded-Host',
      { host: 'two.example', 'x-forwarded-host': 'one.example' },
      TWO,
    ],
    [
      'another host, with our X-Forwarded-Host',
      { host: STRANGER, 'x-forwarded-host': 'two.example' },
      ONE,
    ],
  ])('chooses the origin if Host names %s', async (_case, headers, origin) => {
    const { body } = await sendRawRequest(world.service.url, PATH, { headers });
    expect(body.callback).toBe(`${origin}${PATH}`);
    expect(body.metadata).toContain(`"${npub}@${new URL(origin).host}"`);
    const challenge = await new TestQuoteSocket(world.service.url, SOCKET, headers).nextMessage();
    expect(challenge.payload.url).toBe(`${origin}${SOCKET}`);
  });

  it.each([
    ['no Host', `GET ${PATH} HTTP/1.0\r\n`, ONE],
    ['an empty Host', `GET ${PATH} HTTP/1.1\r\nHost:\r\n`, ONE],
    [
      'two Hosts, ours second',
      `GET ${PATH} HTTP/1.1\r\nHost: ${STRANGER}\r\nHost: two.example\r\n`,
      ONE,
    ],
    [
      'a request target on another host',
      `GET http://${STRANGER}${PATH} HTTP/1.1\r\nHost: two.example\r\n`,
      TWO,
    ],
    [
      'a request target on ours and another Host',
      `GET http://two.example${PATH} HTTP/1.1\r\nHost: ${STRANGER}\r\n`,
      ONE,
    ],
  ])('chooses the origin if a request has %s', async (_case, head, origin) => {
    const answer = await sendRawBytes(world.service.url, `${head}Connection: close\r\n\r\n`);
    expect(answer).toContain(`"callback":"${origin}${PATH}"`);
    expect(answer).not.toContain(STRANGER);
  });
});
