import { runInNewContext } from 'node:vm';
import { Validator } from '@seriousme/openapi-schema-validator';
import { beforeAll, describe, expect, it } from 'vitest';
import { useTestEnvironment } from '../helpers/test-environment.ts';
import { requestJson } from '../helpers/test-wallet.ts';

/** The OpenAPI 3.1 description and the documentation page. */

const DESCRIPTION = '/api/v2/openapi.json';

const world = useTestEnvironment({ env: { TRUST_PROXY: '127.0.0.1' } });
// biome-ignore lint/suspicious/noExplicitAny: these tests check the content of the document.
let description: any;
let addressCount = 0;

beforeAll(async () => {
  description = (await requestJson(world.origin, DESCRIPTION)).body;
});

describe('the OpenAPI description', () => {
  it('is valid OpenAPI 3.1 according to an independent validator', async () => {
    const validator = new Validator();
    expect(await validator.validate(structuredClone(description))).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  it('matches docs/openapi.json, so that reviews show API changes', async () => {
    await expect(`${JSON.stringify(description, null, 2)}\n`).toMatchFileSnapshot(
      '../../docs/openapi.json',
    );
  });
});

describe('the page at /docs', () => {
  it('loads only local files under a strict content security policy', async () => {
    const page = await load('/docs');
    expect(page.type).toBe('text/html; charset=utf-8');
    expect(page.text).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i);
    const scripts = [...page.text.matchAll(/<script[^>]*>([^<]*)</g)];
    expect(scripts.map(([, code]) => code)).toEqual(['', '']);

    const files = listFiles(page.text);
    expect(files).toHaveLength(5);
    for (const file of files) {
      expect(file).toMatch(/^\/docs\/[^/]+$/);
      const { type, policy } = await load(file);
      expect(type, file).toMatch(/^(?:text\/(?:javascript|css)|image\/png)/);
      expect(policy).toBe(page.policy);
    }
    expect(parsePolicy(page.policy)).toEqual({
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'"],
      'img-src': ["'self'", 'data:'],
      'connect-src': ["'self'"],
      'base-uri': ["'none'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
    });
  });

  it('renders the description and only allows trying out GET requests', async () => {
    const rendered: unknown[] = [];
    const library = Object.assign((options: unknown) => rendered.push(options), {
      presets: { apis: 'apis' },
    });
    const { text } = await load('/docs/show.js');
    runInNewContext(text, { SwaggerUIBundle: library });
    expect(rendered).toMatchObject([
      { url: DESCRIPTION, dom_id: '#swagger-ui', supportedSubmitMethods: ['get'] },
    ]);
    expect((await load('/docs')).text).toContain('<div id="swagger-ui">');
    expect((await load('/docs/swagger-ui-bundle.js')).text).toContain('SwaggerUIBundle');
  });

  it.each(['/docs/nothing.js', '/docs/..%2f..%2fpackage.json', '/docs/json', '/docs/yaml'])(
    'returns 404 for %s',
    async (path) => {
      const { status, body } = await requestJson(world.origin, path);
      expect({ status, body }).toEqual({
        status: 404,
        body: { error: true, message: 'Not found.' },
      });
    },
  );
});

describe('the rate limit for documents', () => {
  /** Enough to load the page several times. */
  const MAX_PER_MINUTE = 60;

  it.each([DESCRIPTION, '/docs/swagger-ui-bundle.js'])(
    'applies to all documents after too many requests for %s, but not to the API',
    async (path) => {
      const options = { headers: { 'x-forwarded-for': newAddress() } };
      for (let n = 0; n < MAX_PER_MINUTE; n++) {
        const { status } = await fetch(`${world.origin}${path}`, { method: 'HEAD', ...options });
        expect(status).toBe(200);
      }
      for (const limited of [DESCRIPTION, '/docs', '/docs/swagger-ui-bundle.js']) {
        const { status, headers, body } = await requestJson(world.origin, limited, options);
        expect(status).toBe(429);
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
        expect(body.message).toMatch(/^Too many requests for documents from this address\. /);
      }
      expect((await requestJson(world.origin, '/api/v2/info', options)).status).toBe(200);
    },
  );
});

async function load(path: string) {
  const response = await fetch(`${world.origin}${path}`, { redirect: 'error' });
  expect(response.status, path).toBe(200);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  return {
    type: response.headers.get('content-type') ?? '',
    policy: response.headers.get('content-security-policy') ?? '',
    caching: response.headers.get('cache-control'),
    text: await response.text(),
  };
}

/** Returns the paths of all files that a page loads. */
function listFiles(page: string): string[] {
  return [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
}

function newAddress(): string {
  addressCount += 1;
  return `198.51.100.${addressCount}`;
}

function parsePolicy(header: string): Record<string, string[]> {
  return Object.fromEntries(
    header.split(';').map((directive) => {
      const [name = '', ...sources] = directive.trim().split(' ');
      return [name, sources];
    }),
  );
}
