import { render } from 'preact';
import { useState } from 'preact/hooks';
import { find } from '../common.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient, type Session, type User } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { useFocusOnChange } from './elements.tsx';
import { MintSection } from './mint-section.tsx';
import { PaymentsSection } from './payments-section.tsx';
import { SignIn } from './sign-in.tsx';
import type { Signer } from './signer.ts';
import { UsernameSection } from './username-section.tsx';

function Account({ signerRelay }: { signerRelay: string }) {
  const [session, setSession] = useState<{ signer: Signer; api: ApiClient; user: User } | null>(
    null,
  );
  const heading = useFocusOnChange<HTMLHeadingElement>(session === null);
  const signIn = async (signer: Signer, signal: AbortSignal) => {
    const api = new ApiClient(signer);
    const { data } = await api.request<{ user: User }>('/api/v2/user/info');
    signal.throwIfAborted();
    setSession({ signer, api, user: data.user });
  };
  const signOut = () => {
    session?.signer.close();
    setSession(null);
  };
  return (
    <>
      <div class="row spread">
        <h1 ref={heading} tabIndex={-1}>
          Your account
        </h1>
        {session !== null && (
          <button type="button" class="secondary" onClick={signOut}>
            Sign out
          </button>
        )}
      </div>
      {session === null ? (
        <SignIn signerRelay={signerRelay} onSigner={signIn} />
      ) : (
        <Sections
          {...session}
          onUserChange={(user) =>
            // A change may finish after the user has signed out.
            setSession((current) => (current?.api === session.api ? { ...current, user } : current))
          }
        />
      )}
    </>
  );
}

function Sections(session: Session) {
  return (
    <>
      <PaymentsSection api={session.api} />
      <AddressesSection {...session} />
      <UsernameSection {...session} />
      <MintSection {...session} />
      <CollectSection user={session.user} />
    </>
  );
}

const root = find('account', HTMLElement);
root.replaceChildren();
render(<Account signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
