import type { TestMintsPlan, TestMintsStart } from '../processes/test-mints.ts';
import { NodeProcess } from './node-process.ts';

/** Test mints, all of them in one process of their own. */
export class TestMints implements AsyncDisposable {
  /** Each mint, and where an invoice of it that is posted gets paid. */
  readonly mints: TestMintsStart['mints'];
  readonly process: NodeProcess;

  static async start(plan: TestMintsPlan): Promise<TestMints> {
    const program = import.meta.resolve('../processes/test-mints.ts');
    const started = new NodeProcess('the test mints', program, { input: plan });
    try {
      return new TestMints(started, await started.next<TestMintsStart>());
    } catch (error) {
      await started[Symbol.asyncDispose]();
      throw error;
    }
  }

  private constructor(started: NodeProcess, { mints }: TestMintsStart) {
    this.process = started;
    this.mints = mints;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process[Symbol.asyncDispose]();
  }
}
