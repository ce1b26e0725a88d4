import { useState } from 'preact/hooks';

export interface PurchaseDraft {
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
export function usePurchaseDraft(
  pubkey: string,
): [PurchaseDraft, (changes: Partial<PurchaseDraft>) => void] {
  const [draft, setDraft] = useState(drafts.get(pubkey) ?? EMPTY_DRAFT);
  const changeDraft = (changes: Partial<PurchaseDraft>) => {
    const changed = { ...(drafts.get(pubkey) ?? draft), ...changes };
    drafts.set(pubkey, changed);
    setDraft(changed);
    warnBeforeUnload([...drafts.values()].some(({ token }) => token !== ''));
  };
  return [draft, changeDraft];
}

/** Only while necessary, because some browsers do not cache pages that have such a listener. */
function warnBeforeUnload(isNecessary: boolean): void {
  removeEventListener('beforeunload', preventUnload);
  if (isNecessary) {
    addEventListener('beforeunload', preventUnload);
  }
}

function preventUnload(event: BeforeUnloadEvent): void {
  event.preventDefault();
}
