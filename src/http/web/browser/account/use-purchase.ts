import { useState } from 'preact/hooks';
import { ApiError, type Session, type User } from './api-client.ts';
import { isLost } from './problem-text.ts';

export type Purchase = ReturnType<typeof usePurchase>;

/** Buys a username: the user chooses a name, pays the server's request with a wallet, and pastes the token. */
export function usePurchase({ api, user, onUserChange }: Session) {
  const [draft, changeDraft] = usePurchaseDraft(user.pubkey);
  const [order, setOrder] = useState<{ name: string; request: string } | null>(null);
  const [success, setSuccess] = useState<string | null>(null);

  /** Throws unless the user owns the name, or has to pay for it and has sent no token. */
  const buy = async (name: string, token: string | null) => {
    setSuccess(null);
    try {
      const { data } = await api.request<{ user: User }>('/api/v2/user/username', {
        method: 'POST',
        body: { username: name },
        headers: token === null ? {} : { 'x-cashu': token },
      });
      // Before the token is removed: this throws an error if the response contains no user.
      setSuccess(describeSuccess(name, data.user));
      // A token that was not sent is still money. So is a token that was not needed, because an earlier one has paid.
      const isSpent = token !== null && token === (draft.unconfirmedToken ?? token);
      changeDraft({ name: '', unconfirmedToken: null, ...(isSpent && { token: '' }) });
      setOrder(null);
      onUserChange(data.user);
    } catch (error) {
      if (token !== null) {
        const unconfirmedToken = findUnconfirmedToken(error, token, draft.unconfirmedToken);
        changeDraft({ unconfirmedToken });
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

  return { draft, changeDraft, order, cancelOrder: () => setOrder(null), success, buy };
}

function describeSuccess(name: string, user: User): string {
  return user.name === name.toLowerCase()
    ? `${user.name}@${location.host} is yours now. Payments to it arrive in this account.`
    : `You have bought ${name} before, and have chosen another name since.`;
}

const EMPTY_DRAFT = {
  name: '',
  /** It is money, so it is only removed after the purchase. */
  token: '',
  /** It is not known whether it was spent, because the server did not respond, or failed. */
  unconfirmedToken: null as string | null,
};

/** By public key. Kept in memory until the page closes, so that no token is lost if the user signs out. */
const drafts = new Map<string, typeof EMPTY_DRAFT>();

/** Like `useState`, but the draft outlives the component. The browser warns before it closes a page with a token. */
function usePurchaseDraft(pubkey: string) {
  const [draft, setDraft] = useState(drafts.get(pubkey) ?? EMPTY_DRAFT);
  const changeDraft = (changes: Partial<typeof EMPTY_DRAFT>) => {
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
function findUnconfirmedToken(error: unknown, token: string, earlierToken: string | null) {
  const status = error instanceof ApiError ? error.status : 0;
  if (isLost(error) || status >= 500) {
    return earlierToken ?? token;
  }
  const isFinal = status === 400 || status === 402;
  return isFinal ? null : earlierToken;
}
