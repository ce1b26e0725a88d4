import { render } from 'preact';
import { useState } from 'preact/hooks';
import { getElement } from '../common.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient, type User } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { Button, useFocusOnChange } from './elements.tsx';
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
  // A change may finish after the user has signed out.
  const changeUser = (user: User) =>
    setSession((current) =>
      current && current.api === session?.api ? { ...current, user } : current,
    );
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
        {session !== null && <Button onClick={signOut}>Sign out</Button>}
      </div>
      {session === null ? (
        <SignIn signerRelay={signerRelay} onSigner={signIn} />
      ) : (
        <>
          <PaymentsSection {...session} />
          <AddressesSection {...session} />
          <UsernameSection {...session} onUserChange={changeUser} />
          <MintSection {...session} onUserChange={changeUser} />
          <CollectSection {...session} />
        </>
      )}
    </>
  );
}

const root = getElement('account', HTMLElement);
root.replaceChildren();
render(<Account signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
