/** An answer to a request that came in. */
export interface Answered {
  method: string;
  /** As it was registered, without what stands in the path; `none` where there is none. */
  route: string;
  status: number;
  tookMs: number;
  /** Whether there was a bug, or the database did not do its part; a mint that fails is a refusal. */
  hasFailed: boolean;
}
