import { eventually } from '../helpers/eventually.ts';
import type { SocketMessage, TestSocket, TestWallet } from '../helpers/wallet.ts';
import type { TimeScale } from './time-scale.ts';

/** Records when wallets are notified of their payments. */
export class Updates implements AsyncDisposable {
  readonly #sockets: TestSocket[] = [];
  /** Unscaled seconds by quote id. */
  readonly #firstAt = new Map<string, number>();

  static async open(time: TimeScale, wallets: readonly TestWallet[]): Promise<Updates> {
    const updates = new Updates();
    for (const wallet of wallets) {
      const socket = await wallet.openSocket();
      updates.#sockets.push(socket);
      socket.connection.on('message', (data) => {
        const { type, payload } = JSON.parse(String(data)) as SocketMessage;
        if (type === 'update' && !updates.#firstAt.has(payload.quoteId)) {
          updates.#firstAt.set(payload.quoteId, time.now());
        }
      });
    }
    return updates;
  }

  private constructor() {}

  /** Waits until the first `update` of each payment, and returns how long each took in seconds, sorted. */
  async delaysOf(payments: readonly { quoteId: string; paidAt: number }[]): Promise<number[]> {
    const delays = await eventually(() =>
      payments.map(({ quoteId, paidAt }) => {
        const at = this.#firstAt.get(quoteId);
        if (at === undefined) {
          throw new Error(`no update of quote ${quoteId} yet`);
        }
        return at - paidAt;
      }),
    );
    return delays.sort((a, b) => a - b);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#sockets.map((socket) => socket.close()));
  }
}
