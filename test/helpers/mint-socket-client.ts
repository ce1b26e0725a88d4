import { once } from 'node:events';
import { WebSocket } from 'ws';

/** A NUT-17 message, as far as tests look into it. */
export interface MintMessage {
  id?: number;
  result?: { status: string; subId: string };
  error?: { code: number; message: string };
  params?: { subId: string; payload: { quote: string; state: string } };
}

/** A bare NUT-17 client: sends what the test says, hands out what comes, in order. */
export class MintSocketClient {
  readonly #socket: WebSocket;
  readonly #arrived: MintMessage[] = [];
  #wake: () => void = () => {};
  #lastId = 0;

  /** Opens the WebSocket of a mint; rejects where it is refused. */
  static async open(mintUrl: string): Promise<MintSocketClient> {
    const socket = new WebSocket(`${mintUrl.replace('http', 'ws')}/v1/ws`);
    await once(socket, 'open');
    return new MintSocketClient(socket);
  }

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data) => {
      this.#arrived.push(JSON.parse(String(data)) as MintMessage);
      this.#wake();
    });
  }

  subscribe(subId: string, filters: string[], kind = 'bolt11_mint_quote'): void {
    this.call('subscribe', { kind, subId, filters });
  }

  call(method: string, params: object): void {
    this.#lastId += 1;
    this.sendText(JSON.stringify({ jsonrpc: '2.0', id: this.#lastId, method, params }));
  }

  sendText(text: string): void {
    this.#socket.send(text);
  }

  /** The next message, as soon as there is one. */
  async next(): Promise<MintMessage> {
    for (;;) {
      const message = this.#arrived.shift();
      if (message !== undefined) {
        return message;
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** The state in the next message, which must be a notification. */
  async nextState(): Promise<string | undefined> {
    return (await this.next()).params?.payload.state;
  }

  async closed(): Promise<void> {
    if (this.#socket.readyState !== WebSocket.CLOSED) {
      await once(this.#socket, 'close');
    }
  }

  close(): void {
    this.#socket.terminate();
  }
}
