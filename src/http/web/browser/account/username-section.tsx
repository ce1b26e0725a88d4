import { useEffect, useState } from 'preact/hooks';
import type { ApiClient } from './api-client.ts';
import { toFailure } from './api-failure.ts';
import { CopyableText, Problem, Section, Status } from './elements.tsx';
import { describeProblem } from './problem-text.ts';
import type { User } from './user.ts';
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
  const [terms, setTerms] = useState<PaymentTerms | 'loading' | 'not_sold'>('loading');
  const [problem, setProblem] = useState<string | null>(null);
  const [success, setSuccess] = useState<string | null>(null);
  useEffect(() => {
    api.request<InfoResponse>('/api/v2/info').then(
      ({ data }) => setTerms(data.features.username.payment ?? 'not_sold'),
      (error: unknown) => setProblem(describeProblem(toFailure(error))),
    );
  }, [api]);
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
      {terms === 'not_sold' && <p>Usernames are not sold on this server.</p>}
      {typeof terms === 'object' && (
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
