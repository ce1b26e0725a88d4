/** How long a relay is waited for. All in milliseconds. */
export interface RelayTiming {
  /** From an event, or an AUTH, to its OK. AUTH and sending once more included. */
  answerTimeoutMs: number;
  /** Until an event is on its way, the opening of the connection included: some relays read nothing. */
  sendTimeoutMs: number;
  /** From the first `auth-required:` on a connection to the challenge that some relays send after it. */
  challengeTimeoutMs: number;
  /** A connection with nothing under way is closed after so long: well before NATs forget it. */
  idleMs: number;
}

export const DEFAULT_RELAY_TIMING: Readonly<RelayTiming> = {
  answerTimeoutMs: 10_000,
  sendTimeoutMs: 20_000,
  challengeTimeoutMs: 2_000,
  idleMs: 30_000,
};
