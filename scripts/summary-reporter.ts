import type { Reporter, TestModule } from 'vitest/node';

/**
 * Prints a final line `N passed, N failed`, and fails a run in which no test ran, so that a suite whose tests
 * are all skipped does not pass. Errors outside of tests (in a file, a hook, or unhandled) count as failed.
 */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandledErrors.length;
    for (const module of modules) {
      failed += module.errors().length;
      for (const suite of module.children.allSuites()) {
        failed += suite.errors().length;
      }
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        passed += state === 'passed' ? 1 : 0;
        failed += state === 'failed' ? 1 : 0;
      }
    }
    console.log(`${passed} passed, ${failed} failed`);
    if (passed + failed === 0) {
      console.error('No test ran.');
      process.exitCode = 1;
    }
  }
}
