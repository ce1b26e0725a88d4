import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { REVERSE_PROXIES } from '../../scripts/reverse-proxy.ts';
import { sendRawBytes, sendRawRequest } from '../helpers/network/raw-http-requests.ts';
import { RecipientClient, TestQuoteSocket } from '../helpers/recipients/recipient-client.ts';
import {
  requestThroughProxy,
  type ServiceBehindProxy,
  startServiceBehindProxy,
} from '../helpers/service/service-behind-proxy.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

/**
 * URLs in responses use the origin of the request if that is a configured public origin. Otherwise they use the first
 * configured origin, the canonical one.
 */

const UNKNOWN_HOST = 'evil.example';

const SOCKET_PATH = '/api/v2/ws/quote';

const CANONICAL_ORIGIN = 'https://one.example';
const SECOND_ORIGIN = 'https://two.example';
const IPV6_ORIGIN = 'https://[2001:db8::6]';
const PUBLIC_ORIGINS = [CANONICAL_ORIGIN, SECOND_ORIGIN, IPV6_ORIGIN].join(',');

const environment = useTestEnvironment({ env: { PUBLIC_ORIGINS } });

describe.each(REVERSE_PROXIES)('a service with two domains behind %s', (kind) => {
  let domains: ServiceBehindProxy;

  beforeAll(async () => {
    domains = await startServiceBehindProxy(environment, kind, { shouldAddHttpOrigin: true });
  });
  afterAll(() => domains?.close());

  async function requestCallbackOrigin(
    headers: Record<string, string>,
    targetOrigin = '',
  ): Promise<string | null> {
    const path = `/.well-known/lnurlp/${environment.newWallet().npub}`;
    const target = `${targetOrigin}${path}`;
    const { text } = await requestThroughProxy(domains.secondOrigin, target, { headers });
    expect(text).not.toContain(UNKNOWN_HOST);
    return text.includes('"callback"') ? JSON.parse(text).callback.replace(path, '') : null;
  }

  it('ignores what the client says about the host besides Host and the request target', async () => {
    const { canonicalOrigin, secondOrigin } = domains;
    const host = new URL(canonicalOrigin).host;
    for (const headers of [
      { 'x-forwarded-host': UNKNOWN_HOST },
      { 'x-forwarded-host': host },
      { 'x-forwarded-proto': 'http' },
      { forwarded: `host=${host};proto=http` },
      { 'x-original-host': host, 'x-host': host },
      { host: new URL(secondOrigin).host.toUpperCase() },
    ]) {
      expect(await requestCallbackOrigin(headers)).toBe(secondOrigin);
    }
    expect(await requestCallbackOrigin({}, secondOrigin)).toBe(secondOrigin);
  });

  it('never returns an unknown host', async () => {
    // Caddy serves only the host names in its configuration.
    const origin = kind === 'caddy' ? null : domains.canonicalOrigin;
    expect(await requestCallbackOrigin({ host: UNKNOWN_HOST })).toBe(origin);
    expect(await requestCallbackOrigin({ host: `two.example.${UNKNOWN_HOST}` })).toBe(origin);
    const ofTarget = await requestCallbackOrigin({}, `https://${UNKNOWN_HOST}`);
    expect([domains.canonicalOrigin, domains.secondOrigin, null]).toContain(ofTarget);
  });
});

describe('a service without a trusted proxy', () => {
  const npub = new RecipientClient(CANONICAL_ORIGIN).npub;
  const lnurlPath = `/.well-known/lnurlp/${npub}`;

  it.each<[string, Record<string, string>]>([
    [SECOND_ORIGIN, { host: 'TWO.example:443' }],
    [IPV6_ORIGIN, { host: '[2001:DB8::6]:443' }],
    [CANONICAL_ORIGIN, { host: 'two.example:8443' }],
    [CANONICAL_ORIGIN, { host: UNKNOWN_HOST }],
    [CANONICAL_ORIGIN, { host: '"><script>' }],
    [CANONICAL_ORIGIN, { host: `two.example, ${UNKNOWN_HOST}` }],
    [SECOND_ORIGIN, { host: 'two.example', 'x-forwarded-host': 'one.example' }],
    [CANONICAL_ORIGIN, { host: UNKNOWN_HOST, 'x-forwarded-host': 'two.example' }],
  ])('uses %s in URLs if a request has the headers %j', async (origin, headers) => {
    const { body } = await sendRawRequest(environment.service.url, lnurlPath, { headers });
    expect(body.callback).toBe(`${origin}${lnurlPath}`);
    expect(body.metadata).toContain(`"${npub}@${new URL(origin).host}"`);
    const socket = new TestQuoteSocket(environment.service.url, SOCKET_PATH, headers);
    const challenge = await socket.nextMessage();
    expect(challenge.payload.url).toBe(`${origin}${SOCKET_PATH}`);
  });

  it.each([
    [CANONICAL_ORIGIN, '', 'Host:'],
    [CANONICAL_ORIGIN, '', `Host: ${UNKNOWN_HOST}\r\nHost: two.example`],
    [SECOND_ORIGIN, `http://${UNKNOWN_HOST}`, 'Host: two.example'],
    [CANONICAL_ORIGIN, 'http://two.example', `Host: ${UNKNOWN_HOST}`],
  ])(
    'uses %s in URLs if the target begins with "%s" and the header is %j',
    async (origin, target, header) => {
      const request = `GET ${target}${lnurlPath} HTTP/1.1\r\n${header}\r\nConnection: close\r\n\r\n`;
      const response = await sendRawBytes(environment.service.url, request);
      expect(response).toContain(`"callback":"${origin}${lnurlPath}"`);
      expect(response).not.toContain(UNKNOWN_HOST);
    },
  );
});
