import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Holding, sumEcash } from '../collect/holdings.ts';
import { getElement } from '../common.ts';
import { link, t } from '../translator.ts';
import { AddressesSection } from './addresses-section.tsx';
import type { User } from './api-client.ts';
import { CollectSection } from './collect-section.tsx';
import { EcashSection, useHoldings } from './ecash-section.tsx';
import { Button, Dialog, Problem } from './elements.tsx';
import { InvitationSection } from './invitation-section.tsx';
import { MintSection, type OfferedMint } from './mint-section.tsx';
import { NotificationsSection } from './notifications-section.tsx';
import { PaymentsSections } from './payments-section.tsx';
import { SignIn } from './sign-in.tsx';
import { followTabs, sendToTabs } from './tabs.ts';
import { type AccountSession, useSession } from './use-session.ts';
import { readNameInLink } from './username-request.ts';
import { UsernameSection } from './username-section.tsx';

/** From the server's page. */
interface PageProps {
  /** The default relay for remote signers. */
  signerRelay: string;
  /** How many days a replaced username stays reserved. */
  graceDays: number;
  /** Mints that the operator recommends, or the only ones that users may choose. */
  mints: readonly OfferedMint[];
  allowsAnyMint: boolean;
}

function Page({ signerRelay, ...settings }: PageProps) {
  const { session, setSession, isLoading, problem, reload } = useSession();
  const holdings = useHoldings(session?.user.pubkey);
  const [isLeavingEcash, setIsLeavingEcash] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const wasSignedIn = useRef<boolean | null>(null);
  useEffect(() => {
    // The button for signing in or out, which had the focus, is gone.
    if (wasSignedIn.current !== null) {
      heading.current?.focus();
    }
    wasSignedIn.current = isLoading ? null : session !== null;
  }, [isLoading, session === null]);
  const showUser = (user: User) =>
    setSession((current) =>
      // A change may finish after the user has signed out.
      current && current.api === session?.api ? { ...current, user } : current,
    );
  const changeUser = (user: User) => {
    sendToTabs({ type: 'user_changed', user });
    showUser(user);
  };
  const closeSession = () => {
    session?.signer.close();
    setIsLeavingEcash(false);
    setSession(null);
  };
  const signOut = () => {
    if (session !== null) {
      sendToTabs({ type: 'signed_out', pubkey: session.user.pubkey });
    }
    closeSession();
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
  const ecashSat = sumEcash(holdings ?? []);
  const warning = t('account.ecashHere', { amount: ecashSat });
  // The section with the ecash would move those that are there already.
  const isReady = session !== null && holdings !== null;
  return (
    <>
      <div class="row spread">
        <h1 ref={heading} tabIndex={-1}>
          {t('site.account')}
        </h1>
        {session !== null && (
          <Button onClick={() => (ecashSat === 0 ? signOut() : setIsLeavingEcash(true))}>
            {t('account.signOut')}
          </Button>
        )}
      </div>
      {isLeavingEcash && (
        <Dialog label={warning} onCancel={() => setIsLeavingEcash(false)}>
          <p>{warning}</p>
          <p class="row">
            <a class="button" href={link('/collect')}>
              {t('account.showEcash')}
            </a>
            <Button onClick={signOut}>{t('account.signOut')}</Button>
            <Button onClick={() => setIsLeavingEcash(false)}>{t('account.cancel')}</Button>
          </p>
        </Dialog>
      )}
      {!isReady && (session !== null || isLoading) && <p class="loading">{t('account.loading')}</p>}
      {session === null && !isLoading && (
        <>
          <Problem text={problem} onRetry={reload} />
          <SignIn signerRelay={signerRelay} onSession={setSession} />
        </>
      )}
      {isReady && (
        <Sections {...session} {...settings} holdings={holdings} onUserChange={changeUser} />
      )}
    </>
  );
}

type SectionsProps = AccountSession &
  Omit<PageProps, 'signerRelay'> & {
    holdings: readonly Holding[];
    onUserChange: (user: User) => void;
  };

function Sections(props: SectionsProps) {
  const isExcluded = props.user.member === false;
  return (
    <>
      {isExcluded && <InvitationSection {...props} />}
      <PaymentsSections {...props}>
        <EcashSection {...props.user} holdings={props.holdings} />
        {!isExcluded && <AddressesSection {...props} />}
      </PaymentsSections>
      <CollectSection {...props} />
      {!isExcluded && <UsernameSection {...props} />}
      <MintSection {...props} />
      <NotificationsSection {...props} />
    </>
  );
}

const root = getElement('account', HTMLElement);
root.replaceChildren();
render(<Page {...JSON.parse(root.dataset['settings'] ?? '{}')} />, root);
