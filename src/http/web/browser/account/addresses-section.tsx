import { buildPaymentQrText, CopyableText, QrCode, Section } from '../../elements.ts';
import { t } from '../translator.ts';
import type { ApiClient, User } from './api-client.ts';
import { Problem, useLoaded } from './elements.tsx';
import { PaymentRequest } from './payment-request.tsx';

export function AddressesSection({ api, user }: { api: ApiClient; user: User }) {
  const { data, problem, reload } = useLoaded(
    () => api.request<{ addresses: string[] }>('/api/v2/user/addresses'),
    // A new username adds addresses.
    [api, user.name],
  );
  const [first, ...others] = data?.data.addresses ?? [];
  return (
    <Section title={t('account.addressesTitle')}>
      <p>{t('account.addressesText', { count: 1 + others.length })}</p>
      <Problem text={problem && t('account.addressesFailed', { problem })} onRetry={reload} />
      {first !== undefined && (
        <>
          <Address address={first} />
          <PaymentRequest pageUrl={buildPageUrl(first)} mintUrl={user.mintUrl} />
        </>
      )}
      {data === null && problem === null && (
        <div class="columns">
          <div class="qr" />
        </div>
      )}
      {others.map((address) => (
        <details key={address} class="address">
          <summary>{address}</summary>
          <Address address={address} />
        </details>
      ))}
    </Section>
  );
}

function Address({ address }: { address: string }) {
  const pageUrl = buildPageUrl(address);
  const { origin, pathname } = new URL(pageUrl);
  return (
    <div class="columns">
      <QrCode
        text={buildPaymentQrText(origin, pathname.slice(1))}
        label={t('pay.qrCode', { address })}
      />
      <div>
        <CopyableText text={address} label={t('account.copyAddress')} />
        <p>
          <a class="button secondary" href={pageUrl}>
            {t('account.paymentPage')}
          </a>
        </p>
      </div>
    </div>
  );
}

function buildPageUrl(address: string): string {
  const [localPart = '', host = ''] = address.split('@');
  return `${chooseScheme(host)}//${host}/${localPart}`;
}

/** Payers use HTTPS, except for onion services (LUD-16). */
function chooseScheme(host: string): string {
  if (host === location.host) {
    return location.protocol;
  }
  return host.endsWith('.onion') ? 'http:' : 'https:';
}
