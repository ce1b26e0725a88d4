import type { ApiClient, User } from './api-client.ts';
import { ActionableProblem, CopyableText, QrCode, Section, useLoaded } from './elements.tsx';
import { locateAddress } from './lightning-address.ts';

interface AddressesResponse {
  data: { addresses: string[] };
}

export function AddressesSection({ api, user }: { api: ApiClient; user: User }) {
  const { data, problem, reload } = useLoaded(
    () => api.request<AddressesResponse>('/api/v2/user/addresses'),
    // A new username adds addresses.
    [api, user.name],
  );
  const [first, ...others] = data?.data.addresses ?? [];
  return (
    <Section title="Your addresses">
      <p>Anyone can pay these addresses from a Lightning wallet. Share any of them.</p>
      {problem !== null && (
        <ActionableProblem action="Try again" onAction={reload}>
          Your addresses could not be read. {problem}
        </ActionableProblem>
      )}
      {first !== undefined && <Address address={first} />}
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
  const { paymentPage, uri } = locateAddress(address, location.origin);
  return (
    <div class="columns">
      <QrCode text={uri} label={`QR code of the Lightning address ${address}`} />
      <div>
        <CopyableText text={address} label="Copy address" />
        <p>
          <a href={paymentPage}>Payment page</a>
        </p>
      </div>
    </div>
  );
}
