import { toDisplayText } from '../untrusted-text.ts';

/** The result of publishing an event at a relay, with the relay's message or the reason of the failure, printable. */
export interface PublishResult {
  outcome: PublishOutcome;
  message: string;
}

/** After `accepted` and `rejected`, the delivery has ended. After all others, a retry may succeed. */
type PublishOutcome =
  /** The relay has stored the event, now or after an earlier attempt. */
  | 'accepted'
  | 'rejected'
  | 'auth_required'
  | 'rate_limited'
  | 'error'
  /** The event was sent, so the relay may store it. */
  | 'no_response'
  /** The event was not sent. */
  | 'unreachable';

/** Parses a relay's response to an event, an OK message (NIP-01) such as `rate-limited: slow down there`. */
export function parseOkMessage(isAccepted: boolean, untrustedMessage: string): PublishResult {
  // The prefix ends with a colon (NIP-01), but some relays send only the prefix.
  const [, prefix = ''] = /^\s*([a-z]+(?:[-_ ][a-z]+)?)\s*(?::|$)/i.exec(untrustedMessage) ?? [];
  const outcome = OUTCOME_BY_PREFIX.get(prefix.toLowerCase().replace(/[_ ]/, '-')) ?? 'error';
  return {
    outcome: isAccepted ? 'accepted' : outcome,
    message: toDisplayText(untrustedMessage),
  };
}

const OUTCOME_BY_PREFIX: ReadonlyMap<string, PublishOutcome> = new Map([
  ['duplicate', 'accepted'],
  ['blocked', 'rejected'],
  ['invalid', 'rejected'],
  ['pow', 'rejected'],
  ['restricted', 'rejected'],
  ['mute', 'rejected'],
  ['auth-required', 'auth_required'],
  ['rate-limited', 'rate_limited'],
]);
