import { useState } from 'preact/hooks';
import { t } from '../translator.ts';
import { type ApiClient, ApiError, type Session, type User } from './api-client.ts';
import { isOutcomeUnknown } from './problem-text.ts';

export type Purchase = ReturnType<typeof usePurchase>;

/** Buys a username: the user chooses a name, pays the server's request with a wallet, and pastes the token. */
export function usePurchase({ api, user, onUserChange }: Session) {
  const [draft, changeDraft] = usePurchaseDraft(user.pubkey);
  const [order, setOrder] = useState<{ name: string; request: string } | null>(null);
  const [success, setSuccess] = useState<string | null>(null);

  /** Throws if the user does not own the name afterwards, except if the server asks for payment and got no token. */
  const buy = async (name: string, token: string | null) => {
    setSuccess(null);
    try {
      const newUser = await requestUsername(api, name, token);
      // This throws if the response contains no user. Then the draft keeps its token.
      setSuccess(describeSuccess(name, newUser));
      // If an earlier token may have been spent, it has paid, and the new one is still money.
      const spentToken = draft.unconfirmedToken ?? token;
      const isSpent = token !== null && token === spentToken;
      changeDraft({ name: '', unconfirmedToken: null, ...(isSpent && { token: '' }) });
      setOrder(null);
      onUserChange(newUser);
    } catch (error) {
      if (token !== null) {
        const unconfirmedToken = findUnconfirmedToken(error, token, draft.unconfirmedToken);
        changeDraft({ unconfirmedToken });
      }
      const request = error instanceof ApiError ? error.headers.get('x-cashu') : null;
      if (request !== null) {
        setOrder({ name: name.toLowerCase(), request });
      }
      const isOrder = request !== null && token === null;
      if (!isOrder) {
        throw error;
      }
    }
  };

  return { draft, changeDraft, order, cancelOrder: () => setOrder(null), success, buy };
}

/** Throws unless the user owns the name afterwards, or has owned it. */
export async function requestUsername(api: ApiClient, username: string, token: string | null) {
  const { data } = await api.request<{ user: User }>('/api/v2/user/username', {
    method: 'POST',
    body: { username },
    headers: token === null ? {} : { 'x-cashu': token },
  });
  return data.user;
}

export function describeSuccess(name: string, user: User): string {
  return user.name === name.toLowerCase()
    ? t('account.nameBought', { address: `${user.name}@${location.host}` })
    : t('account.nameBoughtBefore', { name });
}

const EMPTY_DRAFT = {
  name: '',
  /** It is money, so it is only removed after the purchase. */
  token: '',
  /** A sent token that may be spent or not, because the server did not respond, or failed; null if there is none. */
  unconfirmedToken: null as string | null,
};

/** By public key. Kept in memory until the page closes, so that no token is lost if the user signs out. */
const drafts = new Map<string, typeof EMPTY_DRAFT>();

/** Like `useState`, but the draft outlives the component. The browser warns before it closes a page with a token. */
function usePurchaseDraft(pubkey: string) {
  const [draft, setDraft] = useState(
    drafts.get(pubkey) ?? { ...EMPTY_DRAFT, name: readNameInLink() },
  );
  const changeDraft = (changes: Partial<typeof EMPTY_DRAFT>) => {
    const changed = { ...(drafts.get(pubkey) ?? draft), ...changes };
    drafts.set(pubkey, changed);
    setDraft(changed);
    // The listener exists only while it is needed, because some browsers do not cache pages that have one.
    const hasToken = [...drafts.values()].some(({ token }) => token !== '');
    globalThis.onbeforeunload = hasToken ? (event) => event.preventDefault() : null;
  };
  return [draft, changeDraft] as const;
}

/** The page of an available name links to `/account?name=alice`. As on the server, a name that occurs twice is ignored. */
export function readNameInLink(): string {
  const names = new URLSearchParams(location.search).getAll('name');
  return names.length === 1 ? names.join() : '';
}

/** Returns the token that may have been spent, after an attempt with `token` has failed; null if there is none. */
function findUnconfirmedToken(error: unknown, token: string, earlierToken: string | null) {
  const status = error instanceof ApiError ? error.status : null;
  if (isOutcomeUnknown(error) || (status !== null && status >= 500)) {
    return earlierToken ?? token;
  }
  // With these statuses, no purchase of the user is in progress.
  const isFinal = status === 400 || status === 402;
  return isFinal ? null : earlierToken;
}
