import '../common.ts';
import { render } from 'preact';
import { useState } from 'preact/hooks';
import { find } from '../common.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { MintSection } from './mint-section.tsx';
import { PaymentsSection } from './payments-section.tsx';
import { SignIn } from './sign-in.tsx';
import type { Signer } from './signer.ts';
import type { User, UserResponse } from './user.ts';
import { UsernameSection } from './username-section.tsx';

interface Session {
  signer: Signer;
  api: ApiClient;
  user: User;
}

function Account({ signerRelay }: { signerRelay: string }) {
  const [session, setSession] = useState<Session | null>(null);
  if (session === null) {
    const signIn = async (signer: Signer) => {
      const api = new ApiClient(signer);
      const { data } = await api.request<UserResponse>('/api/v2/user/info');
      setSession({ signer, api, user: data.user });
    };
    return (
      <>
        <h1>Your account</h1>
        <SignIn signerRelay={signerRelay} onSigner={signIn} />
      </>
    );
  }
  const { api, user } = session;
  // A change may finish after the user has signed out.
  const setUser = (changed: User) =>
    setSession((current) => (current?.api === api ? { ...current, user: changed } : current));
  const signOut = () => {
    void session.signer.close?.();
    setSession(null);
  };
  return (
    <>
      <h1>Your account</h1>
      <p>
        <button type="button" class="secondary" onClick={signOut}>
          Sign out
        </button>
      </p>
      <PaymentsSection api={api} />
      <AddressesSection api={api} user={user} />
      <UsernameSection api={api} user={user} onUserChange={setUser} />
      <MintSection api={api} user={user} onUserChange={setUser} />
      <CollectSection user={user} />
    </>
  );
}

const root = find('account', HTMLElement);
root.replaceChildren();
render(<Account signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
