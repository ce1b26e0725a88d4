import { sql } from 'kysely';
import { describe, expect, it, onTestFinished } from 'vitest';
import { VERSION } from '../../src/version.ts';
import { assignUsername } from '../helpers/recipients/assign-username.ts';
import { requestJson } from '../helpers/recipients/recipient-client.ts';
import {
  createTestEnvironment,
  useAdditionalService,
  useTestEnvironment,
} from '../helpers/service/test-environment.ts';
import { findAssets } from '../helpers/web/find-assets.ts';

/** The HTTP side of the web pages. test/web/ tests them in a browser. */

const BROWSER_ACCEPT = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';

const SECRET_KEY = `nsec1${'q'.repeat(58)}`;

const NOT_FOUND = { error: true, code: 'not_found', message: 'Not found.' };

const environment = useTestEnvironment();

const open = (path: string, init: RequestInit = {}, origin = environment.service.url) =>
  fetch(`${origin}${path}`, {
    redirect: 'manual',
    ...init,
    headers: { accept: BROWSER_ACCEPT, ...init.headers },
  });

const openWithAssets = async (path: string) => {
  const html = await (await open(path)).text();
  return { html, assets: findAssets(html) };
};

const submit = (path: string, fields: Record<string, string>) =>
  open(path, { method: 'POST', body: new URLSearchParams(fields) });

interface ExpectedForm {
  amount: string;
  comment?: string;
  problem?: RegExp;
  /** The fields that are marked as invalid. */
  field?: string;
}

/** Expects a payment page with certain values in its form. An error must have the focus. */
function expectForm(html: string, { amount, comment = '', problem, field }: ExpectedForm): void {
  const [amountField = ''] = /<input id="amount"[^>]*>/.exec(html) ?? [];
  expect(/ value="([^"]*)"/.exec(amountField)?.[1] ?? '').toBe(amount);
  const [, commentField = '', text = ''] = /<textarea ([^>]*)>([^<]*)</.exec(html) ?? [];
  expect(text.replaceAll('&lt;', '<')).toBe(comment);
  const fields = Object.entries({ amount: amountField, comment: commentField });
  const invalid = fields.filter(([, tag]) => tag.includes('aria-invalid="true"'));
  expect(invalid.map(([name]) => name).join(' and ')).toBe(field ?? '');
  expect(html.match(/ autofocus/g) ?? []).toHaveLength(problem === undefined ? 0 : 1);
  expect(html.includes('<title>Error: ')).toBe(problem !== undefined);
  expect(html).toMatch(problem ?? /./);
}

describe('every page', () => {
  it.each(['/', '/account', '/collect', '/nobody'])('%s is protected by headers', async (path) => {
    const { headers } = await open(path);
    const policy = headers.get('content-security-policy');
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toContain('unsafe');
    // Mints and Lightning addresses can be at any host.
    expect(/connect-src [^;]*https:/.test(policy ?? '')).toBe(path === '/collect');
    expect(headers.get('set-cookie')).toBeNull();
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
  });

  it.each(['/', '/account', '/robots.txt', '/favicon.ico'])(
    '%s is sent again only if it has changed',
    async (path) => {
      const { headers, status } = await open(path);
      expect(status).toBe(200);
      expect(headers.get('cache-control')).toBe('no-cache, no-transform');
      const etag = headers.get('etag') ?? '';
      const second = await open(path, { headers: { 'if-none-match': etag } });
      expect(second.status).toBe(304);
    },
  );

  it('keeps errors out of caches', async () => {
    const { headers } = await open('/nobody');
    expect(headers.get('cache-control')).toBe('no-store, no-transform');
  });

  it('has files that browsers keep, with a hash in their paths', async () => {
    const { assets } = await openWithAssets('/account');
    expect(assets.map((path) => path.replace(/^\/assets\/[\da-f]{12}\//, '')).toSorted()).toEqual([
      'account.js',
      'logo.svg',
      'manifest.webmanifest',
      'style.css',
    ]);
    for (const path of assets) {
      const { headers, status } = await open(path);
      expect([path, status, headers.get('cache-control')]).toEqual([
        path,
        200,
        'public, max-age=31536000, immutable',
      ]);
    }
  });

  it('has other paths for its files after each start in a checkout, whose files may change', async () => {
    const service = await useAdditionalService(environment, {});
    const html = await (await open('/', {}, service.url)).text();
    const { assets } = await openWithAssets('/');
    expect(findAssets(html).filter((path) => assets.includes(path))).toEqual([]);
  });

  it('gets files from a process of another version, which browsers do not keep', async () => {
    const { headers, status } = await open('/assets/0123456789ab/style.css');
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
  });

  it('has no other files', async () => {
    const names = ['constructor', '__proto__', '..%2Fpackage.json', 'tsconfig.json'];
    for (const path of ['style.css', ...names.map((name) => `0123456789ab/${name}`)]) {
      expect((await open(`/assets/${path}`)).status).toBe(404);
    }
  });

  it('needs at most one script, which imports no other', async () => {
    for (const path of ['/', '/account', `/${environment.newWallet().npub}`]) {
      const scripts = (await openWithAssets(path)).assets.filter((asset) => asset.endsWith('.js'));
      expect(scripts).toHaveLength(1);
      const script = await (await open(scripts[0] ?? '')).text();
      expect(script).not.toMatch(/(?:import|from)\s*\(?["'`]\.\//);
    }
  });

  it('has icons for tabs, home screens and installed apps', async () => {
    const { html, assets } = await openWithAssets('/');
    expect(html).toContain('<link rel="apple-touch-icon" href="/apple-touch-icon.png"/>');
    expect(html).toContain('content="#171513" media="(prefers-color-scheme: dark)"');
    const manifestPath = assets.find((path) => path.endsWith('.webmanifest')) ?? '';
    const manifest = await (await open(manifestPath)).json();
    expect(manifest).toMatchObject({
      name: 'nutpost',
      start_url: '/account',
      display: 'standalone',
    });
    const icons: [string, number][] = [
      ['/favicon.ico', 192],
      ['/apple-touch-icon.png', 180],
      ...manifest.icons.map(({ src, sizes }: Record<'src' | 'sizes', string>) => [
        src,
        Number.parseInt(sizes, 10),
      ]),
    ];
    expect(icons.map(([, width]) => width)).toEqual([192, 180, 192, 512]);
    for (const [path, width] of icons) {
      const response = await open(path);
      expect([path, response.headers.get('content-type')]).toEqual([path, 'image/png']);
      // The width is in the first chunk of the file, behind its type.
      expect(Buffer.from(await response.arrayBuffer()).readUInt32BE(16)).toBe(width);
    }
  });
});

it('transfers at most 20 KB for a payment page', async () => {
  const path = `/${environment.newWallet().npub}`;
  const { assets } = await openWithAssets(path);
  const files = assets.filter((asset) => /\.(?:css|js)$/.test(asset));
  expect(files).toHaveLength(2);
  let bytes = 0;
  for (const file of [path, ...files]) {
    const { headers } = await open(file, { headers: { 'accept-encoding': 'gzip' } });
    expect([file, headers.get('content-encoding')]).toEqual([file, 'gzip']);
    bytes += Number(headers.get('content-length'));
  }
  expect(bytes).toBeGreaterThan(4_000);
  expect(bytes).toBeLessThan(20_000);
});

describe('the home page', () => {
  it('shows the address form, the price of usernames and whether zaps work', async () => {
    const service = await useAdditionalService(environment, {
      PUBLIC_ORIGINS: 'https://pay.example',
      USERNAME_PRICE_SAT: '5000',
      SITE_NAME: 'Nuts & <Bolts>',
      SITE_LINKS: 'Terms & "more"=https://pay.example/terms?a="b"',
    });
    const html = await (await open('/', {}, service.url)).text();
    expect(html).toContain('npub1…@pay.example');
    expect(html).toContain('5,000');
    expect(html).toContain('Not available');
    expect(html).toContain('Nuts &amp; &lt;Bolts>');
    expect(html).toContain(
      '<a href="https://pay.example/terms?a=&quot;b&quot;">Terms &amp; &quot;more&quot;</a>',
    );
    expect(html).toContain(`<a href="/docs">API</a><span>nutpost ${VERSION}</span>`);
  });

  it('leads to a payment page', async () => {
    const recipient = ` ALICE@${new URL(environment.origin).host}`;
    const response = await submit('/', { recipient });
    expect([response.status, response.headers.get('location')]).toEqual([303, '/alice']);
  });

  it('keeps what was entered, but not a secret key, if it leads nowhere', async () => {
    const response = await submit('/', { recipient: `alice@other.example ${SECRET_KEY}` });
    expect(response.status).toBe(400);
    const html = await response.text();
    expect(html).toContain('<title>Error: ');
    expect(html).toContain('value="alice@other.example "');
    expect(html).toContain('autofocus');
    expect(html).not.toContain('nsec1qqq');
  });

  it('keeps what was entered after too many requests', async () => {
    const { url } = await useAdditionalService(environment, { LIMIT_REQUESTS: '1' });
    await open('/', {}, url);
    const init = { method: 'POST', body: new URLSearchParams({ recipient: 'alice' }) };
    const rejected = await open('/', init, url);
    expect([rejected.status, rejected.headers.has('retry-after')]).toEqual([429, true]);
    const html = await rejected.text();
    expect(html).toContain('value="alice"');
    expect(html).toMatch(/role="alert">There have been too many requests/);
  });
});

describe('the language of a page', () => {
  const openIn = async (acceptLanguage: string, path: string, init: RequestInit = {}) => {
    const headers = { 'accept-language': acceptLanguage };
    const response = await open(path, { ...init, headers });
    const html = await response.text();
    return { response, html, language: /<html lang="([^"]*)"/.exec(html)?.[1] };
  };

  it.each([
    ['de-AT,de;q=0.9,en;q=0.5', 'de'],
    ['nl, pt-BR;q=0.8, fr;q=0.7', 'pt'],
    ['zh-Hant-TW', 'en'],
    ['JA', 'ja'],
    ['*', 'en'],
    ['', 'en'],
  ])('is, if the browser prefers %j, %s', async (header, expected) => {
    const { language, response } = await openIn(header, '/');
    expect(language).toBe(expected);
    expect(response.headers.get('vary')).toContain('Accept-Language');
  });

  it('is the one of the link that the person chose, also on the pages that follow', async () => {
    const { npub } = environment.newWallet();
    const { html } = await openIn('ja', `/${npub}?amount=21&comment=a?${SECRET_KEY}&lang=de`);
    expect(html).toContain('<h2 id="P0-0">Wie viel?</h2>');
    expect(html).toMatch(/href="\?amount=21&amp;comment=a%3F&amp;lang=fr"/);
    const [, action = ''] = /<form method="post" action="([^"]+)"/.exec(html) ?? [];
    expect(action).toBe(`/${npub}?lang=de`);
    const body = new URLSearchParams({ amount: '1,5' });
    const refused = await openIn('ja', action, { method: 'POST', body });
    expect(refused.html).toMatch(/<title>Fehler: .*ohne Nachkommastellen/);
    const created = await openIn('ja', action, {
      method: 'POST',
      body: new URLSearchParams({ amount: '2.100' }),
    });
    const invoice = await openIn('ja', created.response.headers.get('location') ?? '');
    expect(invoice.html).toContain('2.100 Sats');
  });

  it('is also that of errors', async () => {
    const { html } = await openIn('es', '/nobody');
    expect(html).toContain('<h1>Aquí no hay nada</h1>');
  });
});

describe('a payment page', () => {
  it('shows the address, its QR code, the range of amounts and tags for previews', async () => {
    const { npub } = environment.newWallet();
    const html = await (await open(`/${npub.toUpperCase()}`)).text();
    const address = `${npub}@${new URL(environment.origin).host}`;
    expect(html).toContain(`<code id="address" class="breakable">${address}</code>`);
    expect(html).toMatch(/href="lightning:LNURL1[02-9AC-HJ-NP-Z]+"/);
    expect(html).toContain('From 1 sat to 1,000,000 sats');
    expect(html).toContain(`<meta property="og:title" content="Pay ${address}"/>`);
    expect(html).toContain(`<meta property="og:url" content="${environment.origin}/${npub}"/>`);
    expect(html).toContain('<meta name="twitter:card" content="summary_large_image"/>');
    expect(html).toContain(
      `<meta property="og:image" content="${environment.origin}/${npub}/preview.png"/>`,
    );
  });

  it('has a preview image for known recipients, which caches keep for a day', async () => {
    const { npub } = environment.newWallet();
    const { status, headers } = await open(`/${npub}/preview.png`);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('image/png');
    expect(headers.get('cache-control')).toBe('public, max-age=86400');
    expect((await open('/nobody/preview.png')).status).toBe(404);
  });

  it.each([
    ['1000001', '<hi>', /must be at most 1,000,000 sats/, 'amount'],
    ['', '', /Enter an amount/, 'amount'],
    ['21', 'x'.repeat(256), /comment must have at most 255 characters/, 'comment'],
    ['2k', 'x'.repeat(256), /digits only.*at most 255 characters/s, 'amount and comment'],
  ])(
    'keeps the amount %j and the comment %j if the form is invalid',
    async (amount, comment, problem, field) => {
      const response = await submit(`/${environment.newWallet().npub}`, { amount, comment });
      expect(response.status).toBe(400);
      expectForm(await response.text(), { amount, comment, problem, field });
    },
  );

  it('keeps the longest texts that its fields can contain', async () => {
    const path = `/${environment.newWallet().npub}`;
    const html = await (await open(path)).text();
    const [amount = '', comment = ''] = [...html.matchAll(/ maxlength="(\d+)"/g)].map(
      ([, length]) => '金'.repeat(Number(length)),
    );
    const problem = /digits only.*at most 255 characters/s;
    const response = await submit(path, { amount, comment });
    expectForm(await response.text(), { amount, comment, problem, field: 'amount and comment' });
  });

  it('is filled in by a link, whose values are checked like entered ones', async () => {
    const path = `/${environment.newWallet().npub}`;
    const openLink = async (query: string) => {
      const response = await open(`${path}?${query}`);
      expect(response.status).toBe(200);
      return response.text();
    };
    const html = await openLink('amount=2%20100&comment=Table%204%0A%3Chi%3E');
    expect(html).not.toContain('role="alert"');
    expectForm(html, { amount: '2 100', comment: 'Table 4\n<hi>' });
    expectForm(await openLink('comment=hi'), { amount: '', comment: 'hi' });
    expectForm(await openLink('amount=1&amount=2'), { amount: '', comment: '' });
    const problem = /without decimal places/;
    expectForm(await openLink('amount=1.5'), { amount: '1.5', problem, field: 'amount' });
    expect(await openLink(`comment=${SECRET_KEY}`)).not.toContain('nsec1qqq');
  });

  it('is found under the whole address', async () => {
    const { host } = new URL(environment.origin);
    const response = await open(`/Alice+tea@${host}`);
    expect([response.status, response.headers.get('location')]).toEqual([302, '/alice+tea']);
    const link = await open(`/alice@${host}?amount=2100&comment=Table%204&lightning=LNURL1`);
    expect(link.headers.get('location')).toBe('/alice?amount=2100&comment=Table+4');
    expect((await open('/alice@other.example')).status).toBe(404);
  });

  it.each([
    ['21', `thanks ${SECRET_KEY}`],
    [SECRET_KEY, ''],
  ])(
    'refuses a secret key, and neither repeats it nor creates an invoice',
    async (amount, comment) => {
      const wallet = environment.newWallet();
      const response = await submit(`/${wallet.npub}`, { amount, comment });
      expect(response.status).toBe(400);
      const html = await response.text();
      expect(html).toContain('role="alert">This is a secret key');
      expect(html).toContain(`>${comment.slice(0, 7)}</textarea>`);
      expect(html).not.toContain('nsec1qqq');
      const quotes = environment.database.db
        .selectFrom('quotes')
        .where('pubkey', '=', wallet.pubkey);
      expect(await quotes.selectAll().execute()).toEqual([]);
    },
  );

  it('has the same limits for invoices as wallets', async () => {
    const service = await useAdditionalService(environment, { LIMIT_OPEN_INVOICES_PER_PAIR: '1' });
    const { npub } = environment.newWallet();
    const { body } = await requestJson(service.url, `/.well-known/lnurlp/${npub}?amount=1000`);
    expect(body).toHaveProperty('pr');
    const init = { method: 'POST', body: new URLSearchParams({ amount: '1' }) };
    const response = await open(`/${npub}`, init, service.url);
    expect(response.status).toBe(429);
    expect(response.headers.get('retry-after')).toMatch(/^\d+$/);
    const problem = /too many invoices are unpaid\. Try again in \d+ seconds\./;
    expectForm(await response.text(), { amount: '1', problem });
  });

  it('keeps what was entered after too many requests, or if the mint or the database fails', async () => {
    const { npub } = environment.newWallet();
    const fields = { amount: '21', comment: 'do not lose me' };
    const post = (origin: string) =>
      open(`/${npub}`, { method: 'POST', body: new URLSearchParams(fields) }, origin);

    for (const limit of ['LIMIT_INVOICES', 'LIMIT_REQUESTS']) {
      const limited = await useAdditionalService(environment, { [limit]: '1' });
      expect((await post(limited.url)).status).toBe(303);
      const rejected = await post(limited.url);
      expect([rejected.status, rejected.headers.get('etag')]).toEqual([429, null]);
      expect(rejected.headers.get('retry-after')).toMatch(/^\d+$/);
      const problem = /There have been too many requests.* Try again in \d+ seconds\./;
      expectForm(await rejected.text(), { ...fields, problem });
    }

    const mintless = await useAdditionalService(environment, {
      DEFAULT_MINT_URL: 'http://127.0.0.1:9',
    });
    const failed = await post(mintless.url);
    expect(failed.status).toBe(500);
    const mintProblem = /mint does not respond, or creates no invoices at the moment/;
    expectForm(await failed.text(), { ...fields, problem: mintProblem });

    const readOnly = await createTestEnvironment();
    onTestFinished(() => readOnly.close());
    await sql`pragma query_only = true`.execute(readOnly.database.db);
    const unavailable = await post(readOnly.service.url);
    expect(unavailable.status).toBe(503);
    expectForm(await unavailable.text(), { ...fields, problem: /The server has a problem/ });
  });

  it('does not show the invoice of another recipient', async () => {
    const [payee, other] = [environment.newWallet(), environment.newWallet()];
    const created = await submit(`/${payee.npub}`, { amount: '21' });
    const path = created.headers.get('location') ?? '';
    expect((await open(path.replace(payee.npub, other.npub))).status).toBe(404);
    // A chat program may add a full stop to a link.
    expect((await open(`${path}.`)).status).toBe(404);
  });

  it('is the same for unknown and blocked recipients and for unknown paths', async () => {
    const blocked = environment.newWallet();
    await assignUsername(environment.database, blocked.pubkey, 'blockedbob');
    await environment.database.db
      .updateTable('users')
      .set({ blocked_at: Date.now() })
      .where('pubkey', '=', blocked.pubkey)
      .execute();
    const paths = ['/nobody', '/blockedbob', `/${blocked.npub}`, '/npub1abc', '/no/such/path'];
    const pages = await Promise.all(
      paths.map(async (path) => {
        const response = await open(path);
        return [response.status, await response.text()];
      }),
    );
    expect(new Set(pages.map((page) => JSON.stringify(page))).size).toBe(1);
    expect(pages[0]?.[0]).toBe(404);
  });
});

it('offers a username on its page to browsers, but only if anyone can get it', async () => {
  const env = { USERNAME_PRICE_SAT: '0', USERNAME_RESERVED: 'satoshi' };
  const { url } = await useAdditionalService(environment, env);
  const readTitle = async (path: string) => {
    const response = await open(path, {}, url);
    expect([response.status, response.headers.get('etag')]).toEqual([404, null]);
    return /<h1>(.*?)<\/h1>/.exec(await response.text())?.[1];
  };
  expect(await readTitle('/Unclaimed')).toBe('unclaimed is available');
  const owner = environment.newWallet().pubkey;
  await assignUsername(environment.database, owner, 'oldname');
  await assignUsername(environment.database, owner, 'newname');
  for (const path of [
    '/oldname',
    '/satoshi',
    '/admin',
    '/ab',
    '/npub1abc',
    '/unclaimed/invoice/x',
  ]) {
    expect([path, await readTitle(path)]).toEqual([path, 'Nothing here']);
  }
  const response = await open('/unclaimed', { headers: { accept: 'application/json' } }, url);
  expect([response.status, await response.json()]).toEqual([404, NOT_FOUND]);
});

describe('errors', () => {
  it.each(['/nobody', '/no/such/path', '/api/v2/nothing'])(
    'of %s are JSON if the client does not ask for HTML',
    async (path) => {
      for (const accept of ['*/*', 'application/json', '']) {
        const response = await open(path, { headers: { accept } });
        expect([response.status, await response.json()]).toEqual([404, NOT_FOUND]);
      }
    },
  );

  it('are pages if a limit is reached', async () => {
    const limited = await useAdditionalService(environment, { LIMIT_REQUESTS: '1' });
    await open('/', {}, limited.url);
    const rejected = await open('/', {}, limited.url);
    expect(rejected.status).toBe(429);
    expect(rejected.headers.get('retry-after')).toMatch(/^\d+$/);
    expect(await rejected.text()).toContain('Too many requests');
  });
});

describe('WEB_PAGES=false', () => {
  it('leaves only the API', async () => {
    const service = await useAdditionalService(environment, { WEB_PAGES: 'false' });
    for (const path of ['/', '/account', '/alice', '/robots.txt']) {
      const response = await open(path, {}, service.url);
      expect([response.status, await response.json()]).toEqual([404, NOT_FOUND]);
    }
  });
});

it('limits the pages that an address opens within a minute', async () => {
  const { url } = await useAdditionalService(environment, {});
  const statuses: number[] = [];
  for (let opened = 0; opened < 121; opened += 1) {
    statuses.push((await open('/', {}, url)).status);
  }
  expect(new Set(statuses.slice(0, 120))).toEqual(new Set([200]));
  expect(statuses.at(-1)).toBe(429);
  expect((await open('/api/v2/info', {}, url)).status).toBe(200);
});
