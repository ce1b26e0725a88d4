/** What a load generator asks of a server: its standard input. */
export interface LoadPlan {
  /** Without a slash at the end. */
  url: string;
  /** Each has one request under way at a time. */
  connections: number;
  /** Dealt out among the connections; each sends its own over and over. */
  requests: LoadRequest[];
  /** Whether it looks for answers all the time, rather than sleep until one comes: it then takes a core. */
  staysAwake: boolean;
  warmUpSeconds: number;
  /** Of one turn. */
  seconds: number;
}

/** A GET. */
export interface LoadRequest {
  path: string;
  headers: Record<string, string>;
  /** Text that its answer must hold. */
  expect: string;
}

/** What starts a turn, as a message, once it has said `"warm"`; between turns it rests. */
export const TURN = 'turn';

/** What it says of a turn, a line of standard output. */
export interface LoadResult {
  seconds: number;
  /** The share of the time in which it did not wait for an answer. */
  busy: number;
  /** Answers as they should be. */
  right: number;
  /** Those since the start, of the warm-up too. */
  rightInAll: number;
  /** Other answers until now, and connections that were lost, since the start; and those silent at the end. */
  wrong: number;
  /** Null where there is none. */
  firstWrong: string | null;
}
