import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';

/** A client with an address of its own, because limits count addresses. */
export class HttpClient {
  readonly #origin: string;
  readonly #agent: Agent;

  constructor(origin: string, localAddress: string) {
    this.#origin = origin;
    this.#agent = new Agent({ keepAlive: true, localAddress });
  }

  /** Sends a request, with a JSON body if there is one. @returns the status and the parsed response */
  async send(
    path: string,
    options: { method?: string; authorization?: string; body?: unknown } = {},
    // biome-ignore lint/suspicious/noExplicitAny: each route has its own response.
  ): Promise<{ status: number; body: any }> {
    const { method = 'GET', authorization, body } = options;
    const response = Promise.withResolvers<import('node:http').IncomingMessage>();
    const outgoing = request(`${this.#origin}${path}`, {
      method,
      agent: this.#agent,
      headers: {
        ...(authorization !== undefined && { authorization }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
    });
    outgoing.once('response', response.resolve);
    outgoing.once('error', response.reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const incoming = await response.promise;
    return { status: incoming.statusCode ?? 0, body: JSON.parse(await text(incoming)) };
  }

  close(): void {
    this.#agent.destroy();
  }
}
