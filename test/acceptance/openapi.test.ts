import { runInNewContext } from 'node:vm';
import { Validator } from '@seriousme/openapi-schema-validator';
import { beforeAll, describe, expect, it } from 'vitest';
import { request } from '../helpers/wallet.ts';
import { useWorld } from '../helpers/world.ts';

/** The description of the API for programs (OpenAPI 3.1), and the page that shows it to people. */

const DESCRIPTION = '/api/v2/openapi.json';

const world = useWorld({ env: { TRUST_PROXY: '127.0.0.1' } });
// biome-ignore lint/suspicious/noExplicitAny: what it holds is what these tests are about.
let description: any;
let addresses = 0;

beforeAll(async () => {
  description = (await request(world.base, DESCRIPTION)).body;
});

describe('the description', () => {
  it('is OpenAPI 3.1 to a validator that has no part in making it', async () => {
    const validator = new Validator();
    expect(await validator.validate(structuredClone(description))).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  it('is the one that is kept in docs/, so that a change of the API is seen in review', async () => {
    await expect(`${JSON.stringify(description, null, 2)}\n`).toMatchFileSnapshot(
      '../../docs/openapi.json',
    );
  });
});

describe('the page at /docs', () => {
  it('and all that it loads come from here, under a policy that lets nothing else run', async () => {
    const page = await load('/docs');
    expect(page.type).toBe('text/html; charset=utf-8');
    expect(page.text).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i);
    const scripts = [...page.text.matchAll(/<script[^>]*>([^<]*)</g)];
    expect(scripts.map(([, code]) => code)).toEqual(['', '']);

    const files = filesOf(page.text);
    expect(files).toHaveLength(5);
    for (const file of files) {
      expect(file).toMatch(/^\/docs\/[^/]+$/);
      const { type, policy } = await load(file);
      expect(type, file).toMatch(/^(?:text\/(?:javascript|css)|image\/png)/);
      expect(policy).toBe(page.policy);
    }
    expect(policyOf(page.policy)).toEqual({
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

  it('shows this description, and tries nothing that changes anything', async () => {
    const shown: unknown[] = [];
    const library = Object.assign((how: unknown) => shown.push(how), { presets: { apis: 'apis' } });
    const { text } = await load('/docs/show.js');
    runInNewContext(text, { SwaggerUIBundle: library });
    expect(shown).toMatchObject([
      { url: DESCRIPTION, dom_id: '#swagger-ui', supportedSubmitMethods: ['get'] },
    ]);
    expect((await load('/docs')).text).toContain('<div id="swagger-ui">');
    expect((await load('/docs/swagger-ui-bundle.js')).text).toContain('SwaggerUIBundle');
  });

  it.each(['/docs/nothing.js', '/docs/..%2f..%2fpackage.json', '/docs/json', '/docs/yaml'])(
    'has nothing at %s',
    async (path) => {
      const { status, body } = await request(world.base, path);
      expect({ status, body }).toEqual({
        status: 404,
        body: { error: true, message: 'Not found.' },
      });
    },
  );
});

describe('whoever asks for the page and the description again and again', () => {
  /** What drawing the page takes, some times over. */
  const MAX_A_MINUTE = 60;

  it.each([DESCRIPTION, '/docs/swagger-ui-bundle.js'])(
    'is refused in the end, as by %s, and nothing else is',
    async (path) => {
      const from = { headers: { 'x-forwarded-for': newAddress() } };
      for (let n = 0; n < MAX_A_MINUTE; n++) {
        const { status } = await fetch(`${world.base}${path}`, { method: 'HEAD', ...from });
        expect(status).toBe(200);
      }
      for (const refused of [DESCRIPTION, '/docs', '/docs/swagger-ui-bundle.js']) {
        const { status, headers, body } = await request(world.base, refused, from);
        expect(status).toBe(429);
        expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
        expect(body.message).toMatch(/^Too many requests for documents from this address\. /);
      }
      expect((await request(world.base, '/api/v2/info', from)).status).toBe(200);
    },
  );
});

async function load(path: string) {
  const response = await fetch(`${world.base}${path}`, { redirect: 'error' });
  expect(response.status, path).toBe(200);
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  return {
    type: response.headers.get('content-type') ?? '',
    policy: response.headers.get('content-security-policy') ?? '',
    caching: response.headers.get('cache-control'),
    text: await response.text(),
  };
}

/** What a page loads. */
function filesOf(page: string): string[] {
  return [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? '');
}

function newAddress(): string {
  addresses += 1;
  return `198.51.100.${addresses}`;
}

function policyOf(header: string): Record<string, string[]> {
  return Object.fromEntries(
    header.split(';').map((directive) => {
      const [name = '', ...sources] = directive.trim().split(' ');
      return [name, sources];
    }),
  );
}
