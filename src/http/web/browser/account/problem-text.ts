/** Why a request of the user failed. */
export type Failure =
  /** The server rejected the request. The message is a sentence of the server. */
  | { kind: 'refused'; status: number; message: string }
  /** It is not known whether the server received the request. */
  | { kind: 'no_response' }
  /** The request was not sent, for example because the signer refused. */
  | { kind: 'other'; message: string };

/** The server accepts 64 KiB of headers. The other headers of a request need some of it. */
const MAX_TOKEN_LENGTH = 60 * 1024;

const TOKEN_TOO_LONG =
  'The token is too long for this server. Receive it in your wallet, and create a new token there: it usually ' +
  'consists of fewer parts.';

const TOKEN_KEPT = 'Your token is still in the field.';

/** Explains a failure, and says what to do. */
export function describeProblem(failure: Failure): string {
  switch (failure.kind) {
    case 'no_response':
      return 'The server did not respond. Check your internet connection and try again.';
    case 'other':
      return failure.message;
    case 'refused':
      return `${failure.message}${giveAdvice(failure)}`;
  }
}

function giveAdvice({ status, message }: Failure & { kind: 'refused' }): string {
  if (status === 401) {
    return ' Sign out and sign in again, and check the clock of your device.';
  }
  const isTemporary = status === 429 || status >= 500;
  return isTemporary && !/try again/i.test(message) ? ' Try again in a minute.' : '';
}

/** Explains why a mint or the lock setting was not saved. */
export function describeMintProblem(failure: Failure): string {
  if (failure.kind !== 'refused' || failure.status !== 400) {
    return describeProblem(failure);
  }
  return /locking/i.test(failure.message)
    ? 'This mint cannot lock quotes. Choose another mint, or do without “Lock quotes”.'
    : `${failure.message} Check the address. The mint may also be unreachable at the moment, or it may not offer ` +
        'Lightning payments in sats. Nothing was changed.';
}

/**
 * Explains why a username was not bought.
 *
 * @param hasToken whether the request contained a token, which is still in the user's field
 */
export function describePurchaseProblem(failure: Failure, hasToken: boolean): string {
  if (hasToken) {
    return describePaidPurchaseProblem(failure);
  }
  if (failure.kind === 'refused' && isPurchaseInProgress(failure)) {
    return `${failure.message} Try again in a minute; you need no other token.`;
  }
  return describeRefusedName(failure) ?? describeProblem(failure);
}

function describePaidPurchaseProblem(failure: Failure): string {
  if (failure.kind === 'no_response') {
    return (
      'The server did not respond, so it is not known whether you have bought the name. Press “Buy” again with ' +
      'the same token: it is not spent twice.'
    );
  }
  const { message } = failure;
  if (failure.kind === 'refused') {
    const { status } = failure;
    if (status === 402) {
      return (
        `${message} The name was not bought. Paste another token that pays the request. If this token is still ` +
        'unspent, you can take it back into your wallet.'
      );
    }
    if (status === 409 && isPurchaseInProgress(failure)) {
      return (
        `${message} Take it back into your wallet. Then paste the first token again, which is not spent twice, ` +
        'and press “Buy”.'
      );
    }
    if (status === 413 || status === 431) {
      return TOKEN_TOO_LONG;
    }
    if (status >= 500) {
      return `${message} Press “Buy” again in a minute with the same token: it is not spent twice.`;
    }
  }
  return `${describeRefusedName(failure) ?? describeProblem(failure)} ${TOKEN_KEPT}`;
}

/** Returns null if the name is not the reason. */
function describeRefusedName(failure: Failure): string | null {
  if (failure.kind !== 'refused') {
    return null;
  }
  switch (failure.status) {
    case 400:
      return `${failure.message} Choose another name, or ask the operator of this server.`;
    case 409:
      return `${failure.message} Choose another name.`;
    default:
      return null;
  }
}

/** The server uses the same statuses for other reasons. */
function isPurchaseInProgress({ message }: { message: string }): boolean {
  return message.includes('in progress');
}

/** Returns why a text cannot be sent as a token, or null. The server checks everything else. */
export function findTokenProblem(token: string): string | null {
  if (token === '') {
    return 'Paste a token first. Your wallet creates it when it pays the request.';
  }
  if (/^(?:cashu:)?creq/i.test(token)) {
    return 'This is a payment request. Pay it with your wallet, and paste the token that the wallet creates.';
  }
  if (!/^[!-~]+$/.test(token)) {
    return 'This is not a Cashu token. A token begins with cashuA or cashuB.';
  }
  return token.length > MAX_TOKEN_LENGTH ? TOKEN_TOO_LONG : null;
}
