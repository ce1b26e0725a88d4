/**
 * How a zap receipt stands with one relay: on its way; there; turned away for good; or left, because
 * nothing came of it for too long.
 */
export type DeliveryState = 'open' | 'accepted' | 'refused' | 'given_up';
