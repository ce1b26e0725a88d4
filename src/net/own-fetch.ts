import { TLSSocket } from 'node:tls';
import { Agent, buildConnector } from 'undici';
import { type UnreachableReason, unreachableReason } from './unreachable-reason.ts';

/** A proxy of the operator's own is near, or does not answer. */
const CONNECT_TIMEOUT_MS = 5_000;

/** A service asks a mint before it answers a payer. */
const TOTAL_TIMEOUT_MS = 20_000;

/** An answer of ours has a few kB; what is longer is somebody else's page. */
const MAX_BODY_BYTES = 256 * 1024;

const USER_AGENT = 'nutpost';

/** A request to an address that the operator has named as the service's own. */
export interface OwnRequest {
  url: string;
  method: 'GET' | 'OPTIONS';
  headers: Readonly<Record<string, string>>;
}

/** What came of it; a redirect is an answer. */
export type OwnAnswer =
  | {
      outcome: 'answered';
      status: number;
      /** Names in lower case; the values of a repeated header joined by commas. */
      headers: ReadonlyMap<string, string>;
      text: string;
    }
  | { outcome: 'unreachable'; reason: UnreachableReason };

/**
 * HTTP to the service's own addresses, as a client from outside would use them: private ones too, since a
 * proxy may stand there, and with headers of the caller's choice.
 */
export class OwnFetch {
  readonly #certificateEnds = new Map<string, number>();
  readonly #agent: Agent;

  constructor() {
    const connect = buildConnector({
      timeout: CONNECT_TIMEOUT_MS,
      allowH2: false,
      // Where it is not said, the environment can turn the checks off (NODE_TLS_REJECT_UNAUTHORIZED).
      rejectUnauthorized: true,
    });
    this.#agent = new Agent({
      connect: (options, callback) =>
        connect(options, (...result) => {
          const [, socket] = result;
          if (socket instanceof TLSSocket) {
            this.#noteCertificate(options.hostname, socket);
          }
          callback(...result);
        }),
      maxResponseSize: MAX_BODY_BYTES,
    });
  }

  /** Sends one request. Never throws for anything that the other side does. */
  async request({ url, method, headers }: OwnRequest): Promise<OwnAnswer> {
    const { origin, pathname, search } = new URL(url);
    try {
      const response = await this.#agent.request({
        origin,
        path: pathname + search,
        method,
        headers: { accept: 'application/json', 'user-agent': USER_AGENT, ...headers },
        signal: AbortSignal.timeout(TOTAL_TIMEOUT_MS),
      });
      const text = await response.body.text();
      return { outcome: 'answered', status: response.statusCode, headers: joined(response), text };
    } catch (error) {
      return { outcome: 'unreachable', reason: unreachableReason(error) };
    }
  }

  /** When the certificate that a host showed last ends (milliseconds since 1970); null: it showed none. */
  certificateEndsAtMs(hostname: string): number | null {
    return this.#certificateEnds.get(hostname) ?? null;
  }

  /** Ends every connection at once. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** None is shown again on a session that is resumed. */
  #noteCertificate(hostname: string, socket: TLSSocket): void {
    const endsAtMs = Date.parse(socket.getPeerCertificate().valid_to);
    if (!Number.isNaN(endsAtMs)) {
      this.#certificateEnds.set(hostname, endsAtMs);
    }
  }
}

function joined(response: {
  headers: Record<string, string | string[] | undefined>;
}): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(response.headers).map(([name, value]) => [
      name.toLowerCase(),
      Array.isArray(value) ? value.join(', ') : (value ?? ''),
    ]),
  );
}
