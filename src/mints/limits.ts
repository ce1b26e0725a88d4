// The bounds of what is asked of mints, and of what they can cost. Users can choose any number of mints.

/** Short, because anyone can add mints, and the info of a deleted mint is requested again when it is needed. */
export const UNUSED_MINT_RETENTION_MS = 7 * 24 * 60 * 60_000;

/** What one mint may cost. */
export interface MintLimits {
  /** Quotes in a request (NUT-29). */
  maxPollBatchSize: number;
  maxRequestsPerPoll: number;
  /** Observations per transaction. Its row locks delay other payments to the same recipients. */
  maxRecordBatchSize: number;
}

export const OPERATOR_MINT_LIMITS: MintLimits = {
  maxPollBatchSize: 1_000,
  maxRequestsPerPoll: 16,
  maxRecordBatchSize: 100,
};

export const USER_MINT_LIMITS: MintLimits = {
  // A poll of a hostile mint then costs a few milliseconds.
  maxPollBatchSize: 100,
  maxRequestsPerPoll: 2,
  // Each may be a zap whose receipt goes to 20 relays, which takes about 3 ms.
  maxRecordBatchSize: 20,
};
