import { useState } from 'preact/hooks';
import { CopyableText, Section } from '../../elements.ts';
import { ApiError, type Session, type User } from './api-client.ts';
import { Problem, Status, useFocusOnChange, useLoaded } from './elements.tsx';
import { PaymentForm } from './payment-form.tsx';
import { isLost } from './problem-text.ts';
import { UsernameForm } from './username-form.tsx';

interface Info {
  features: { username: { payment?: { amount: number; mints: string[] } } };
}

/** Sells a username: the user chooses a name, pays the server's request with a wallet, and pastes the token. */
export function UsernameSection({ api, user, onUserChange }: Session) {
  const info = useLoaded(() => api.request<Info>('/api/v2/info'), [api]);
  const terms = info.data?.data.features.username.payment;
  const [draft, changeDraft] = usePurchaseDraft(user.pubkey);
  const [order, setOrder] = useState<{ name: string; request: string } | null>(null);
  const [success, setSuccess] = useState<string | null>(null);
  const heading = useFocusOnChange<HTMLHeadingElement>(order?.name);

  const buy = async (name: string, token: string | null) => {
    setSuccess(null);
    try {
      const { data } = await api.request<{ user: User }>('/api/v2/user/username', {
        method: 'POST',
        body: { username: name },
        headers: token === null ? {} : { 'x-cashu': token },
      });
      setSuccess(describeSuccess(name, data.user));
      // A token that was not sent is still money. So is a token that was not needed, because an earlier one has paid.
      const isSpent = token !== null && token === (draft.unconfirmedToken ?? token);
      changeDraft({ name: '', unconfirmedToken: null, ...(isSpent && { token: '' }) });
      setOrder(null);
      onUserChange(data.user);
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

  const newNameTitle = user.name === undefined ? 'Get a username' : 'Change your username';
  return (
    <Section title="Username">
      {user.name !== undefined && (
        <CopyableText text={`${user.name}@${location.host}`} label="Copy address" />
      )}
      <Status text={success} />
      <Problem text={info.problem && `${info.problem} Then reload the page.`} />
      {info.data !== null && terms === undefined && <p>Usernames are not sold on this server.</p>}
      {terms !== undefined && (
        <h3 ref={heading} tabIndex={-1} class="breakable">
          {order === null ? newNameTitle : `Pay for ${order.name}@${location.host}`}
        </h3>
      )}
      {terms !== undefined && order === null && (
        <UsernameForm
          api={api}
          ownName={user.name}
          priceSat={terms.amount}
          name={draft.name}
          token={draft.token}
          onName={(name) => changeDraft({ name })}
          onSubmit={() => buy(draft.name, null)}
        />
      )}
      {terms !== undefined && order !== null && (
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
    </Section>
  );
}

function describeSuccess(name: string, user: User): string {
  return user.name === name.toLowerCase()
    ? `${user.name}@${location.host} is yours now. Payments to it arrive in this account.`
    : `You have bought ${name} before, and have chosen another name since.`;
}

interface PurchaseDraft {
  name: string;
  /** Empty if there is none. It is money, so it is only removed after the purchase. */
  token: string;
  /** A token of which it is not known whether it was spent, because the server did not respond, or failed. */
  unconfirmedToken: string | null;
}

const EMPTY_DRAFT: PurchaseDraft = { name: '', token: '', unconfirmedToken: null };

/** By public key. Kept in memory until the page closes, so that no token is lost if the user signs out. */
const drafts = new Map<string, PurchaseDraft>();

/** Like `useState`, but the draft outlives the component. The browser warns before it closes a page with a token. */
function usePurchaseDraft(pubkey: string) {
  const [draft, setDraft] = useState(drafts.get(pubkey) ?? EMPTY_DRAFT);
  const changeDraft = (changes: Partial<PurchaseDraft>) => {
    const changed = { ...(drafts.get(pubkey) ?? draft), ...changes };
    drafts.set(pubkey, changed);
    setDraft(changed);
    // Only while necessary, because some browsers do not cache pages that have such a listener.
    const hasToken = [...drafts.values()].some(({ token }) => token !== '');
    globalThis.onbeforeunload = hasToken ? (event) => event.preventDefault() : null;
  };
  return [draft, changeDraft] as const;
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
