/** The part of autocannon that the load generator uses; it has no types of its own. */
declare module 'autocannon' {
  interface Request {
    path: string;
    headers: Record<string, string>;
  }

  interface Options {
    url: string;
    connections: number;
    /** Seconds. */
    duration: number;
    /** Told of each connection before its first request. */
    setupClient: (client: { setRequests(requests: Request[]): void }) => void;
    /** Told of each answer, of any status. */
    verifyBody: (body: string) => boolean;
  }

  interface Run {
    /** A connection broke, or waited for an answer for too long. */
    on(event: 'reqError', listener: (error: Error) => void): void;
  }

  export default function autocannon(options: Options): Run;
}
