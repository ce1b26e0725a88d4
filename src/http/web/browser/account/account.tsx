import { type ComponentChildren, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { getElement, showDialog } from '../common.ts';
import { link, t } from '../translator.ts';
import { AddressesSection } from './addresses-section.tsx';
import { ApiClient, type User } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { countEcash, EcashSection, useHoldings } from './ecash-section.tsx';
import { Button, Problem, useFocusOnChange, useLoaded } from './elements.tsx';
import { InvitationSection } from './invitation-section.tsx';
import { MintSection, type OfferedMint } from './mint-section.tsx';
import { NotificationsSection } from './notifications-section.tsx';
import { PaymentsSections } from './payments-section.tsx';
import { type AccountSession, fetchUser, restoreSession } from './restore-session.ts';
import { SignIn } from './sign-in.tsx';
import type { Signer } from './signer.ts';
import { announceSignOut, announceUser, followTabs } from './tabs.ts';
import { readNameInLink } from './username-request.ts';
import { UsernameSection } from './username-section.tsx';

interface PageProps {
  /** The default relay for remote signers. */
  signerRelay: string;
  /** How many days a replaced username stays reserved. */
  graceDays: number;
  /** Mints that the operator recommends, or the only ones that users may choose. */
  mints: readonly OfferedMint[];
  allowsAnyMint: boolean;
}

function Page(props: PageProps) {
  const { data, problem, reload } = useLoaded(restoreSession, []);
  if (data === null && problem === null) {
    return (
      <>
        <div class="row spread">
          <h1>{t('site.account')}</h1>
        </div>
        <p class="loading">{t('account.loading')}</p>
      </>
    );
  }
  return (
    <Account {...props} restoredSession={data?.session ?? null}>
      <Problem text={problem} onRetry={reload} />
    </Account>
  );
}

interface AccountProps extends PageProps {
  restoredSession: AccountSession | null;
  /** Shown while nobody is signed in. */
  children: ComponentChildren;
}

function Account({ restoredSession, signerRelay, children, ...settings }: AccountProps) {
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
  const warnAndSignOut = async () => {
    const amountSat = await countEcash(session?.user.pubkey ?? '');
    return amountSat === 0 ? signOut() : warnOfEcash(amountSat, signOut);
  };
  useEffect(() => {
    // The user came from there to sign in.
    if (session !== null && location.hash === '#collect') {
      location.replace(link('/collect', readNameInLink()));
    }
  }, [session]);
  useEffect(
    () => (session === null ? undefined : followTabs(session.user, showUser, closeSession)),
    [session],
  );
  return (
    <>
      <div class="row spread">
        <h1 ref={heading} tabIndex={-1}>
          {t('site.account')}
        </h1>
        {session !== null && (
          <Button onClick={() => void warnAndSignOut()}>{t('account.signOut')}</Button>
        )}
      </div>
      {session === null ? (
        <>
          {children}
          <SignIn signerRelay={signerRelay} onSigner={signIn} />
        </>
      ) : (
        <Sections {...session} {...settings} onUserChange={changeUser} />
      )}
    </>
  );
}

type SectionsProps = AccountSession &
  Omit<PageProps, 'signerRelay'> & { onUserChange: (user: User) => void };

function Sections(props: SectionsProps) {
  const holdings = useHoldings(props.user.pubkey);
  const isExcluded = props.user.member === false;
  // The section with the ecash would move those that are there already.
  return holdings === null ? (
    <p class="loading">{t('account.loading')}</p>
  ) : (
    <>
      {isExcluded && <InvitationSection {...props} />}
      <PaymentsSections {...props}>
        <EcashSection {...props.user} holdings={holdings} />
        {!isExcluded && <AddressesSection {...props} />}
      </PaymentsSections>
      <CollectSection {...props} />
      {!isExcluded && <UsernameSection {...props} />}
      <MintSection {...props} />
      <NotificationsSection {...props} />
    </>
  );
}

function warnOfEcash(amountSat: number, signOut: () => void): void {
  const text = t('account.ecashHere', { amount: amountSat });
  const collect = Object.assign(document.createElement('a'), {
    href: link('/collect'),
    textContent: t('account.showEcash'),
  });
  collect.className = 'button';
  const [leave, stay] = [t('account.signOut'), t('account.cancel')].map((label) => {
    const button = document.createElement('button');
    button.className = 'secondary';
    button.textContent = label;
    return button;
  });
  leave?.addEventListener('click', signOut);
  showDialog(text, [collect, ...[leave, stay].filter((button) => button !== undefined)]);
}

const root = getElement('account', HTMLElement);
root.replaceChildren();
const { signerRelay = '', graceDays, mints = '[]', allowsAnyMint } = root.dataset;
render(
  <Page
    signerRelay={signerRelay}
    graceDays={Number(graceDays)}
    mints={JSON.parse(mints)}
    allowsAnyMint={allowsAnyMint === 'true'}
  />,
  root,
);
