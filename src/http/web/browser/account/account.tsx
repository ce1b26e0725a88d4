import '../common.ts';
import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { find } from '../common.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient, type User, type UserResponse } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { MintSection } from './mint-section.tsx';
import { PaymentsSection } from './payments-section.tsx';
import { SignIn } from './sign-in.tsx';
import type { Signer } from './signer.ts';
import { UsernameSection } from './username-section.tsx';

interface Session {
  signer: Signer;
  api: ApiClient;
  user: User;
}

function Account({ signerRelay }: { signerRelay: string }) {
  const [session, setSession] = useState<Session | null>(null);
  const signIn = async (signer: Signer, signal: AbortSignal) => {
    const api = new ApiClient(signer);
    const { data } = await api.request<UserResponse>('/api/v2/user/info');
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
        <Heading isSignedIn={session !== null} />
        {session !== null && (
          <button type="button" class="secondary" onClick={signOut}>
            Sign out
          </button>
        )}
      </div>
      {session === null ? (
        <SignIn signerRelay={signerRelay} onSigner={signIn} />
      ) : (
        <Sections {...session} onUserChange={changeUser} />
      )}
    </>
  );
}

/** Gets the focus after the user signed in or out, because the used button is gone. */
function Heading({ isSignedIn }: { isSignedIn: boolean }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const wasSignedIn = useRef(isSignedIn);
  useEffect(() => {
    if (wasSignedIn.current !== isSignedIn) {
      wasSignedIn.current = isSignedIn;
      heading.current?.focus();
    }
  }, [isSignedIn]);
  return (
    <h1 ref={heading} tabIndex={-1}>
      Your account
    </h1>
  );
}

interface SectionsProps extends Session {
  onUserChange: (user: User) => void;
}

function Sections({ api, user, onUserChange }: SectionsProps) {
  return (
    <>
      <PaymentsSection api={api} />
      <AddressesSection api={api} user={user} />
      <UsernameSection api={api} user={user} onUserChange={onUserChange} />
      <MintSection api={api} user={user} onUserChange={onUserChange} />
      <CollectSection user={user} />
    </>
  );
}

const root = find('account', HTMLElement);
root.replaceChildren();
render(<Account signerRelay={root.dataset['signerRelay'] ?? ''} />, root);
