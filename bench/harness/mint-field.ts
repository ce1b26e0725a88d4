import { request } from 'undici';
import type { FieldCounts, FieldPlan, FieldStart } from '../processes/mint-field.ts';
import type { FieldMintKind } from './field.ts';
import { NodeProcess } from './node-process.ts';

/** A mint of the field, by its number there. */
export interface FieldMint {
  number: number;
  kind: FieldMintKind;
  url: string;
}

/** A hundred mints and more in one process of their own. */
export class MintField implements AsyncDisposable {
  readonly mints: readonly FieldMint[];
  /** The one that is taken for users who chose none. */
  readonly defaultMint: FieldMint;
  readonly #process: NodeProcess;
  readonly #controlUrl: string;

  static async start(plan: FieldPlan): Promise<MintField> {
    const program = import.meta.resolve('../processes/mint-field.ts');
    const started = new NodeProcess('the field of mints', program, { input: plan });
    try {
      return new MintField(plan, started, await started.next<FieldStart>());
    } catch (error) {
      await started[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(plan: FieldPlan, started: NodeProcess, start: FieldStart) {
    this.#process = started;
    this.#controlUrl = start.controlUrl;
    this.mints = plan.kinds.map((kind, number) => {
      const url = start.mintUrls[number];
      if (url === undefined) {
        throw new Error('every mint has a url');
      }
      return { number, kind, url };
    });
    const [first] = this.mints;
    if (first === undefined) {
      throw new Error('a field has a mint');
    }
    this.defaultMint = first;
  }

  /** What came to the mints until now. */
  counts(): Promise<FieldCounts> {
    return this.#ask('GET');
  }

  /** Pays a quote, by its number at its mint; subscribers have been told when this resolves. */
  async pay(mint: FieldMint, quote: number): Promise<void> {
    await this.#ask('POST', { mint: mint.number, quote });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }

  async #ask(method: 'GET' | 'POST', body?: object): Promise<FieldCounts> {
    const answer = await request(this.#controlUrl, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    return (await answer.body.json()) as FieldCounts;
  }
}
