import { request } from 'undici';
import type {
  ArrivedReceipt,
  RelayFieldCounts,
  RelayFieldPlan,
  RelayFieldStart,
} from '../processes/relay-field.ts';
import { NodeProcess } from './node-process.ts';

/** Relays, dead ones among them, in one process of their own. */
export class RelayField implements AsyncDisposable {
  /** In the order of the plan. */
  readonly urls: readonly string[];
  readonly #process: NodeProcess;
  readonly #controlUrl: string;

  static async start(plan: RelayFieldPlan): Promise<RelayField> {
    const program = import.meta.resolve('../processes/relay-field.ts');
    const started = new NodeProcess('the relays', program, { input: plan });
    try {
      return new RelayField(started, await started.next<RelayFieldStart>());
    } catch (error) {
      await started[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(started: NodeProcess, { controlUrl, relayUrls }: RelayFieldStart) {
    this.#process = started;
    this.#controlUrl = controlUrl;
    this.urls = relayUrls;
  }

  counts(): Promise<RelayFieldCounts> {
    return this.#ask('GET', '/');
  }

  /** Every receipt that came, in no order. */
  receipts(): Promise<ArrivedReceipt[]> {
    return this.#ask('GET', '/receipts');
  }

  /** The relays forget every event. */
  async forget(): Promise<void> {
    await this.#ask('POST', '/');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }

  async #ask<Answer>(method: 'GET' | 'POST', path: string): Promise<Answer> {
    const answer = await request(`${this.#controlUrl}${path}`, { method });
    return (await answer.body.json()) as Answer;
  }
}
