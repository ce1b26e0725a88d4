import { useState } from 'preact/hooks';
import type { ApiClient, User } from './api-client.ts';
import { CopyableText, Problem, Section, Status, useLoaded } from './elements.tsx';
import { type PaymentTerms, UsernamePurchase } from './username-purchase.tsx';

interface InfoResponse {
  data: { features: { username: { payment?: PaymentTerms } } };
}

/** Shows the user's name, and sells another one. */
export function UsernameSection({
  api,
  user,
  onUserChange,
}: {
  api: ApiClient;
  user: User;
  onUserChange: (user: User) => void;
}) {
  const { data, problem } = useLoaded(() => api.request<InfoResponse>('/api/v2/info'), [api]);
  const [success, setSuccess] = useState<string | null>(null);
  const terms = data?.data.features.username.payment;
  const finishPurchase = (changed: User, message: string) => {
    setSuccess(message);
    onUserChange(changed);
  };
  return (
    <Section title="Username">
      {user.name !== undefined && (
        <CopyableText text={`${user.name}@${location.host}`} label="Copy address" />
      )}
      <Status text={success} />
      {problem !== null && <Problem>{problem} Then reload the page.</Problem>}
      {data !== null && terms === undefined && <p>Usernames are not sold on this server.</p>}
      {terms !== undefined && (
        <UsernamePurchase
          api={api}
          user={user}
          terms={terms}
          onStart={() => setSuccess(null)}
          onPurchase={finishPurchase}
        />
      )}
    </Section>
  );
}
