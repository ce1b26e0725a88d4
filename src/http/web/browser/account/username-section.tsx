import { useEffect, useRef, useState } from 'preact/hooks';
import { type ApiClient, ApiError, type User, type UserResponse } from './api-client.ts';
import { CopyableText, Problem, Section, Status, useLoaded } from './elements.tsx';
import { PaymentForm } from './payment-form.tsx';
import { isLost } from './problem-text.ts';
import { type PurchaseDraft, usePurchaseDraft } from './purchase-draft.ts';
import { UsernameForm } from './username-form.tsx';

interface InfoResponse {
  data: { features: { username: { payment?: PaymentTerms } } };
}

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

interface PaymentTerms {
  amount: number;
  mints: string[];
}

interface PurchaseProps {
  api: ApiClient;
  user: User;
  terms: PaymentTerms;
  onStart: () => void;
  /** Called with the changed user and a message about the success. */
  onPurchase: (user: User, message: string) => void;
}

/** Sells a username: the user chooses a name, pays the server's request with a wallet, and pastes the token. */
function UsernamePurchase({ api, user, terms, onStart, onPurchase }: PurchaseProps) {
  const [draft, changeDraft] = usePurchaseDraft(user.pubkey);
  const [order, setOrder] = useState<{ name: string; request: string } | null>(null);
  const heading = useFocusOnChange(order?.name);

  const buy = async (name: string, token: string | null) => {
    onStart();
    try {
      const { data } = await api.request<UserResponse>('/api/v2/user/username', {
        method: 'POST',
        body: { username: name },
        headers: token === null ? {} : { 'x-cashu': token },
      });
      // Before the token is removed, because it throws an error if the response was cut off.
      const message = describeSuccess(name, data.user);
      // A token that was not sent is still money. So is a token that was not needed, because an earlier one has paid.
      const isSpent = token !== null && token === (draft.unconfirmedToken ?? token);
      changeDraft({ name: '', unconfirmedToken: null, ...(isSpent && { token: '' }) });
      setOrder(null);
      onPurchase(data.user, message);
    } catch (error) {
      if (token !== null) {
        changeDraft({ unconfirmedToken: findUnconfirmedToken(error, token, draft) });
      }
      const request = error instanceof ApiError ? error.headers.get('x-cashu') : null;
      if (request !== null) {
        setOrder({ name: name.toLowerCase(), request });
      }
      if (request === null || token !== null) {
        throw error;
      }
    }
  };

  return (
    <>
      <h3 ref={heading} tabIndex={-1} class="breakable">
        {describeStep(order?.name, user.name)}
      </h3>
      {order === null ? (
        <UsernameForm
          api={api}
          ownName={user.name}
          priceSat={terms.amount}
          name={draft.name}
          token={draft.token}
          onName={(name) => changeDraft({ name })}
          onSubmit={() => buy(draft.name, null)}
        />
      ) : (
        <PaymentForm
          priceSat={terms.amount}
          mintUrl={terms.mints[0]}
          request={order.request}
          token={draft.token}
          onToken={(token) => changeDraft({ token })}
          onSubmit={(token) => buy(order.name, token)}
          onCancel={() => setOrder(null)}
        />
      )}
    </>
  );
}

/** Returns a reference to an element that gets the focus when a value changes, because its form is replaced. */
function useFocusOnChange(value: string | undefined) {
  const element = useRef<HTMLHeadingElement>(null);
  const previous = useRef(value);
  useEffect(() => {
    if (previous.current !== value) {
      previous.current = value;
      element.current?.focus();
    }
  }, [value]);
  return element;
}

function describeStep(orderedName: string | undefined, ownName: string | undefined): string {
  if (orderedName !== undefined) {
    return `Pay for ${orderedName}@${location.host}`;
  }
  return ownName === undefined ? 'Get a username' : 'Change your username';
}

/** Returns which token may still pay for the name after an attempt has failed. */
function findUnconfirmedToken(
  error: unknown,
  token: string,
  { unconfirmedToken }: PurchaseDraft,
): string | null {
  const status = error instanceof ApiError ? error.status : 0;
  if (isLost(error) || status >= 500) {
    return unconfirmedToken ?? token;
  }
  const isFinal = status === 400 || status === 402;
  return isFinal ? null : unconfirmedToken;
}

function describeSuccess(name: string, user: User): string {
  return user.name === name.toLowerCase()
    ? `${user.name}@${location.host} is yours now. Payments to it arrive in this account.`
    : `You have bought ${name} before, and have chosen another name since.`;
}
