import { expect, it, onTestFinished } from 'vitest';
import { REVERSE_PROXIES } from '../../scripts/reverse-proxy.ts';
import { startServiceBehindProxy } from '../helpers/service/service-behind-proxy.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';
import { findAssets } from '../helpers/web/find-assets.ts';

const environment = useTestEnvironment();

it.each(REVERSE_PROXIES)('%s passes pages, forms and headers on unchanged', async (kind) => {
  const service = await startServiceBehindProxy(environment, kind);
  onTestFinished(() => service.close());
  const path = `/${environment.newWallet().npub}`;
  const direct = await fetch(`${service.directUrl}${path}`);
  const policy = direct.headers.get('content-security-policy');
  expect(policy).toContain("default-src 'none'");

  for (const origin of [service.canonicalOrigin, service.secondOrigin]) {
    const page = await fetch(`${origin}${path}`);
    expect(page.headers.get('content-security-policy')).toBe(policy);
    expect(page.headers.get('content-encoding')).toBe('gzip');
    const html = await page.text();
    expect(html).toContain(`${path.slice(1)}@${new URL(origin).host}`);
    const headers = { 'if-none-match': page.headers.get('etag') ?? '' };
    expect((await fetch(`${origin}${path}`, { headers })).status).toBe(304);

    for (const asset of findAssets(html)) {
      const { status, headers: assetHeaders } = await fetch(`${origin}${asset}`);
      expect([status, assetHeaders.get('content-encoding')]).toEqual([200, 'gzip']);
    }

    const body = new URLSearchParams({ amount: '21' });
    const created = await fetch(`${origin}${path}`, { method: 'POST', body, redirect: 'manual' });
    expect(created.status).toBe(303);
    const invoice = await fetch(new URL(created.headers.get('location') ?? '', origin));
    expect(await invoice.text()).toContain('data-status="waiting"');
  }
});
