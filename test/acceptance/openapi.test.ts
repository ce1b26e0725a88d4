import { once } from 'node:events';
import { get } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { Validator } from '@seriousme/openapi-schema-validator';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { VERSION } from '../../src/version.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { TestClock } from '../helpers/test-clock.ts';

const DESCRIPTION_PATH = '/api/v2/openapi.json';

/** Only the last test exceeds the limit of documents. */
const clock = new TestClock();

/** With all routes. */
const environment = useTestEnvironment({
  env: { RECIPIENTS: 'members' },
  overrides: { monotonicMs: clock.now },
});
// biome-ignore lint/suspicious/noExplicitAny: these tests check the content of the document.
let description: any;

beforeAll(async () => {
  description = (await requestJson(environment.origin, DESCRIPTION_PATH)).body;
});

describe('the OpenAPI description', () => {
  it('is valid OpenAPI 3.1 according to an independent validator', async () => {
    const validator = new Validator();
    expect(await validator.validate(structuredClone(description))).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  it('matches docs/openapi.json, so that reviews show API changes', async () => {
    expect(description.info.version).toBe(VERSION);
    const { version } = packageJson;
    const released = { ...description, info: { ...description.info, version } };
    await expect(`${JSON.stringify(released, null, 2)}\n`).toMatchFileSnapshot(
      '../../docs/openapi.json',
    );
  });
});

describe('the page at /docs', () => {
  it('loads only local files under a strict content security policy', async () => {
    const page = await fetchFile('/docs');
    expect(page.type).toBe('text/html; charset=utf-8');
    expect(page.text).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i);
    const scripts = [...page.text.matchAll(/<script[^>]*>([^<]*)</g)];
    expect(scripts.map(([, code]) => code)).toEqual(['', '']);

    const files = listLoadedPaths(page.text);
    expect(files).toHaveLength(5);
    for (const file of files) {
      expect(file).toMatch(/^\/docs\/[^/]+$/);
      const { type, policy } = await fetchFile(file);
      expect(type, file).toMatch(/^(?:text\/(?:javascript|css)|image\/png)/);
      expect(policy).toBe(page.policy);
    }
    expect(page.policy.split('; ')).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self' data:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ]);
  });

  it.each([
    [undefined, undefined],
    ['gzip;q=0', undefined],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'gzip'],
  ])('answers Accept-Encoding %j with Content-Encoding %j', async (accepted, expected) => {
    const request = get(`${environment.origin}/docs/show.js`, {
      headers: accepted === undefined ? {} : { 'accept-encoding': accepted },
    });
    const [response] = await once(request, 'response');
    const body = await buffer(response);
    expect(response.headers['content-encoding']).toBe(expected);
    expect(response.headers.vary).toBe('Accept-Encoding');
    const text = (expected === 'gzip' ? gunzipSync(body) : body).toString();
    expect(text).toBe((await fetchFile('/docs/show.js')).text);
    expect(text).toContain('SwaggerUIBundle(');
  });
});

describe('the rate limit for documents', () => {
  const MAX_PER_MINUTE = 60;

  it('applies to all documents together, but not to the API', async () => {
    const paths = [DESCRIPTION_PATH, '/docs', '/docs/swagger-ui-bundle.js'];
    clock.advance(60_000);
    for (let count = 0; count < MAX_PER_MINUTE; count++) {
      const { status } = await fetch(`${environment.origin}${paths[count % 3]}`, {
        method: 'HEAD',
      });
      expect(status).toBe(200);
    }
    for (const path of paths) {
      const { status, headers, body } = await requestJson(environment.origin, path);
      expect(status).toBe(429);
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(body.message).toMatch(/^Too many requests for documents from your IP address\. /);
    }
    expect((await requestJson(environment.origin, '/api/v2/info')).status).toBe(200);
  });
});

async function fetchFile(path: string) {
  const response = await fetch(`${environment.origin}${path}`, { redirect: 'error' });
  expect(response.status, path).toBe(200);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  return {
    type: response.headers.get('content-type') ?? '',
    policy: response.headers.get('content-security-policy') ?? '',
    text: await response.text(),
  };
}

function listLoadedPaths(html: string): string[] {
  return [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
}
