import { type ComponentChildren, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { getElement } from '../common.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient, type User } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { Button, Problem, useFocusOnChange, useLoaded } from './elements.tsx';
import { MintSection } from './mint-section.tsx';
import { PaymentsSections } from './payments-section.tsx';
import { readSession } from './saved-session.ts';
import { SignIn } from './sign-in.tsx';
import { type Signer, SignerError } from './signer.ts';
import { announceSignOut, announceUser, followTabs, requestSession } from './tabs.ts';
import { UsernameSection } from './username-section.tsx';

interface AccountSession {
  signer: Signer;
  api: ApiClient;
  user: User;
}

interface PageProps {
  /** The default relay for remote signers. */
  signerRelay: string;
  /** How many days a replaced username stays reserved. */
  graceDays: number;
  /** Mints that the operator recommends. */
  mints: readonly string[];
}

function Page(props: PageProps) {
  const { data, problem, reload } = useLoaded(restoreSession, []);
  if (data === null && problem === null) {
    return (
      <>
        <div class="row spread">
          <h1>Your account</h1>
        </div>
        <p class="loading">Loading…</p>
      </>
    );
  }
  return (
    <Account {...props} restoredSession={data?.session ?? null}>
      <Problem text={problem} onRetry={reload} />
    </Account>
  );
}

/** Continues the session of this tab, or that of another one. */
async function restoreSession(): Promise<{ session: AccountSession | null }> {
  const savedSession = readSession() ?? (await requestSession());
  if (savedSession === null) {
    return { session: null };
  }
  const controller = new AbortController();
  const signer: Signer = {
    signEvent: () =>
      Promise.reject(new SignerError('Your session has ended. Sign out, then sign in again.')),
    close: () => controller.abort(),
  };
  try {
    const api = new ApiClient(signer, controller.signal, savedSession);
    return { session: { signer, api, user: await fetchUser(api) } };
  } catch (error) {
    if (!(error instanceof SignerError)) {
      throw error;
    }
    signer.close();
    return { session: null };
  }
}

async function fetchUser(api: ApiClient): Promise<User> {
  const { data } = await api.request<{ user: User }>('/api/v2/user/info');
  return data.user;
}

interface AccountProps extends PageProps {
  restoredSession: AccountSession | null;
  /** Shown while nobody is signed in. */
  children: ComponentChildren;
}

function Account({ restoredSession, signerRelay, graceDays, mints, children }: AccountProps) {
  const [session, setSession] = useState(restoredSession);
  const heading = useFocusOnChange<HTMLHeadingElement>(session === null);
  const signIn = async (signer: Signer, signal: AbortSignal) => {
    const api = new ApiClient(signer, signal);
    const user = await fetchUser(api);
    signal.throwIfAborted();
    setSession({ signer, api, user });
  };
  const showUser = (user: User) =>
    setSession((current) =>
      // A change may finish after the user has signed out.
      current && current.api === session?.api ? { ...current, user } : current,
    );
  const changeUser = (user: User) => {
    announceUser(user);
    showUser(user);
  };
  const closeSession = () => {
    session?.signer.close();
    setSession(null);
  };
  const signOut = () => {
    if (session !== null) {
      announceSignOut(session.user);
    }
    closeSession();
  };
  useEffect(
    () => (session === null ? undefined : followTabs(session.user, showUser, closeSession)),
    [session],
  );
  return (
    <>
      <div class="row spread">
        <h1 ref={heading} tabIndex={-1}>
          Your account
        </h1>
        {session !== null && <Button onClick={signOut}>Sign out</Button>}
      </div>
      {session === null ? (
        <>
          {children}
          <SignIn signerRelay={signerRelay} onSigner={signIn} />
        </>
      ) : (
        <>
          <PaymentsSections {...session}>
            <AddressesSection {...session} />
          </PaymentsSections>
          <CollectSection {...session} />
          <UsernameSection {...session} graceDays={graceDays} onUserChange={changeUser} />
          <MintSection {...session} mints={mints} onUserChange={changeUser} />
        </>
      )}
    </>
  );
}

const root = getElement('account', HTMLElement);
root.replaceChildren();
const { signerRelay = '', graceDays, mints = '' } = root.dataset;
render(
  <Page signerRelay={signerRelay} graceDays={Number(graceDays)} mints={mints.split(' ')} />,
  root,
);
