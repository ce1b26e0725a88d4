import { createServer } from 'node:http';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { AsyncQueue } from '../async-queue.ts';
import { listenOnLoopback } from '../network/loopback-server.ts';

export function buildQuoteNotification(quote: string, state: string): object {
  const params = { subId: 'any', payload: { quote, state } };
  return { jsonrpc: '2.0', method: 'subscribe', params };
}

interface JsonRpcRequest {
  id: number;
  method: string;
  params: { kind: string; subId: string; filters: string[] };
}

export class FakeMintConnection {
  readonly requests = new AsyncQueue<JsonRpcRequest>();
  readonly socket: WebSocket;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('message', (data) => this.requests.push(JSON.parse(String(data)) as JsonRpcRequest));
    socket.on('error', () => {});
  }

  confirmSubscription({ id, params: { subId } }: JsonRpcRequest): void {
    this.send({ jsonrpc: '2.0', id, result: { status: 'OK', subId } });
  }

  sendQuoteState(quote: string, state: string): void {
    this.send(buildQuoteNotification(quote, state));
  }

  send(message: unknown): void {
    this.sendText(JSON.stringify(message));
  }

  sendText(text: string): void {
    this.socket.send(text);
  }
}

/** A mint without an HTTP API. It accepts WebSocket connections, on which the test sends all messages. */
export class FakeWebSocketMint {
  readonly connections = new AsyncQueue<FakeMintConnection>();
  readonly requestedPaths: string[] = [];
  readonly url: string;
  upgradeRejectionStatus: number | null = null;

  static async start(options: { autoPong?: boolean } = {}): Promise<FakeWebSocketMint> {
    const server = createServer();
    const { url, close } = await listenOnLoopback(server);
    onTestFinished(close);
    const mint = new FakeWebSocketMint(url);
    const webSocketServer = new WebSocketServer({ noServer: true, ...options });
    server.on('upgrade', (request, socket, head) => {
      mint.requestedPaths.push(request.url ?? '');
      if (mint.upgradeRejectionStatus === null) {
        webSocketServer.handleUpgrade(request, socket, head, (webSocket) =>
          mint.connections.push(new FakeMintConnection(webSocket)),
        );
      } else {
        socket.end(`HTTP/1.1 ${mint.upgradeRejectionStatus} Rejected\r\nContent-Length: 0\r\n\r\n`);
      }
    });
    return mint;
  }

  private constructor(url: string) {
    this.url = url;
  }
}
