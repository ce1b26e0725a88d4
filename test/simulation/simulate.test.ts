import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, it, vi } from 'vitest';

// The command replaces timers and clocks, so it runs in processes of its own.

// A seed takes a second, and several on a busy machine.
vi.setConfig({ testTimeout: 600_000 });

/**
 * Twelve payments, faults for 20 seconds, and neither outages of hours, nor a calm phase, which begins eleven minutes after
 * the faults, nor the twelve minutes of rest before leaks are looked for. `.ci/run` has longer seeds.
 */
const SHORT = [
  '--scenario',
  'payments=12,activeMs=20000,outageHours=0,hasCalmPhase=false,checksLeaks=false',
];

describe('npm run simulate', () => {
  it('breaks no rule with 40 fixed and 10 new seeds', () => {
    const { output, exitCode } = simulate('--seeds', '40', '--fresh', '10', ...SHORT);
    expect(output).toMatch(/\n50 passed, 0 failed\n$/);
    expect(exitCode).toBe(0);
  });

  it('prints the same histories for two seeds in another process, and for one of them alone', () => {
    const two = ['--first', '2', '--seeds', '2', '--print', '--jobs', '1', ...SHORT];
    const print = () => simulate(...two).output.replace(/ simulated in .*/, '');
    const output = print();
    expect(print()).toBe(output);
    expect(output).toContain(simulate('--seed', '3', ...SHORT).output);
  });

  it('prints only what concerns one payment, until a time', () => {
    const args = ['--seed', '3', '--with', '', '--scenario', 'payments=20,activeMs=30000'];
    const [, payment = ''] = /paymentHash=(payment-\d+)/.exec(simulate(...args).output) ?? [];
    const { output } = simulate(...args, '--only', payment, '--until', '60');
    expect(output).toMatch(
      new RegExp(`process-\\S+ +logs invoice_created paymentHash=${payment} `),
    );
    const payments = Array.from(output.matchAll(/paymentHash=(payment-\d+)/g), ([, name]) => name);
    expect(new Set(payments)).toEqual(new Set([payment]));
    const whole = simulate(...args, '--until', '60').output;
    expect(output.split('\n').at(-2)).toBe(whole.split('\n').at(-2));
    const unknown = simulate(...args, '--only', 'payment-99', '--until', '1');
    expect(unknown.output).toContain("No invoice of seed 3 has the id 'payment-99'.");
    expect(unknown.exitCode).toBe(1);
  });

  it('reports which rule a seed breaks, where, and what is needed to break it', () => {
    const scenario = 'payments=20,hasCalmPhase=false';
    const args = ['--first', '3', '--with', 'clock drift', '--scenario', scenario];
    const { output, exitCode } = simulate(...args, '--fail');
    const violation = /\nSeed 3 breaks the rule 'nothing is paid' at \S+ s: (quote-\d+)\n/;
    expect(output).toMatch(violation);
    const [, quote] = violation.exec(output) ?? [];
    expect(output).toMatch(new RegExp(`\n +[\\d.]+ +mint-\\d .*${quote}\\D`));
    expect(output).toContain('Needed faults: none.');
    expect(output).toMatch(
      /npm run simulate -- --seed 3 --with '' --scenario \S*payments=\d,\S*instances=1 --fail/,
    );
    expect(output).toMatch(/\n0 passed, 1 failed\n$/);
    expect(exitCode).toBe(1);
  });

  it.each([
    ['--seeds', 'x', "--seeds must be a number of at least 0 (got 'x')"],
    ['--jobs', '0', "--jobs must be a number of at least 1 (got '0')"],
    ['--with', 'clock', "There is no kind of fault 'clock'"],
    ['--scenario', 'payments=abc', "The scenario value payments cannot be 'abc'"],
    ['--scenario', 'mints=0', "The scenario value mints cannot be '0'"],
  ])('rejects %s %s', (option, value, message) => {
    const { output, exitCode } = simulate(option, value);
    expect(output).toContain(message);
    expect(exitCode).toBe(2);
  });
});

function simulate(...args: string[]): { output: string; exitCode: number | null } {
  const command = path.join(import.meta.dirname, 'main.ts');
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ['--no-deprecation', command, ...args],
    { encoding: 'utf8', maxBuffer: 2 ** 28 },
  );
  return { output: stdout + stderr, exitCode: status };
}
