import { eventually } from '../helpers/eventually.ts';
import type {
  RecipientClient,
  SocketMessage,
  TestQuoteSocket,
} from '../helpers/recipients/recipient-client.ts';
import type { TimeScale } from './time-scale.ts';

export class UpdateRecorder implements AsyncDisposable {
  readonly #sockets: TestQuoteSocket[] = [];
  /** By quote id, in seconds of the {@link TimeScale}. */
  readonly #firstUpdateAtSeconds = new Map<string, number>();

  static async open(time: TimeScale, wallets: readonly RecipientClient[]): Promise<UpdateRecorder> {
    const recorder = new UpdateRecorder();
    for (const wallet of wallets) {
      const socket = await wallet.openSocket();
      recorder.#sockets.push(socket);
      socket.connection.on('message', (data) => {
        const { type, payload } = JSON.parse(String(data)) as SocketMessage;
        if (type === 'update' && !recorder.#firstUpdateAtSeconds.has(payload.quoteId)) {
          recorder.#firstUpdateAtSeconds.set(payload.quoteId, time.nowSeconds());
        }
      });
    }
    return recorder;
  }

  private constructor() {}

  /** Waits for the first `update` of each payment. Returns the sorted delays in seconds. */
  async waitForDelays(
    payments: readonly { quoteId: string; paidAtSeconds: number }[],
  ): Promise<number[]> {
    const delays = await eventually(() =>
      payments.map(({ quoteId, paidAtSeconds }) => {
        const firstUpdateAtSeconds = this.#firstUpdateAtSeconds.get(quoteId);
        if (firstUpdateAtSeconds === undefined) {
          throw new Error(`no update for quote ${quoteId} yet`);
        }
        return firstUpdateAtSeconds - paidAtSeconds;
      }),
    );
    return delays.sort((a, b) => a - b);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#sockets.map((socket) => socket.close()));
  }
}
