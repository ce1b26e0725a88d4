import { eventually } from '../helpers/eventually.ts';
import type { SocketMessage, TestQuoteSocket, TestWallet } from '../helpers/test-wallet.ts';
import type { TimeScale } from './time-scale.ts';

/** Records when wallets are notified of their payments. */
export class UpdateRecorder implements AsyncDisposable {
  readonly #sockets: TestQuoteSocket[] = [];
  /** Unscaled seconds by quote id. */
  readonly #firstUpdateAt = new Map<string, number>();

  static async open(time: TimeScale, wallets: readonly TestWallet[]): Promise<UpdateRecorder> {
    const updates = new UpdateRecorder();
    for (const wallet of wallets) {
      const socket = await wallet.openSocket();
      updates.#sockets.push(socket);
      socket.connection.on('message', (data) => {
        const { type, payload } = JSON.parse(String(data)) as SocketMessage;
        if (type === 'update' && !updates.#firstUpdateAt.has(payload.quoteId)) {
          updates.#firstUpdateAt.set(payload.quoteId, time.nowSeconds());
        }
      });
    }
    return updates;
  }

  private constructor() {}

  /** Waits for the first `update` of each payment. Returns the sorted delays in seconds. */
  async waitForDelays(payments: readonly { quoteId: string; paidAt: number }[]): Promise<number[]> {
    const delays = await eventually(() =>
      payments.map(({ quoteId, paidAt }) => {
        const at = this.#firstUpdateAt.get(quoteId);
        if (at === undefined) {
          throw new Error(`no update for quote ${quoteId} yet`);
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
