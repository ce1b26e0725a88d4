import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';

/**
 * `npm run check`: runs every `check:*` script of package.json, shows the findings of all of them,
 * and fails when any of them failed. Arguments choose some: `npm run check -- types format`.
 */

const PREFIX = 'check:';

/** The findings of a check are text for a person; more than this would be a fault of the tool. */
const MAX_OUTPUT_BYTES = 16 * 1024 * 1024;

interface Outcome {
  name: string;
  ok: boolean;
  output: string;
  seconds: string;
}

const all = await checkNames();
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`No such check: ${unknown.join(', ')}. There are: ${all.join(', ')}.`);
  process.exit(1);
}

const outcomes = await Promise.all((wanted.length > 0 ? wanted : all).map(run));
for (const { name, ok, output } of outcomes) {
  if (!ok) {
    console.log(`\n--- ${name} ---\n${output.trimEnd()}`);
  }
}
console.log();
for (const { name, ok, seconds } of outcomes) {
  console.log(`${ok ? 'ok    ' : 'FAILED'}  ${name} (${seconds} s)`);
}
process.exitCode = outcomes.every(({ ok }) => ok) ? 0 : 1;

async function checkNames(): Promise<string[]> {
  const manifest = JSON.parse(await readFile('package.json', 'utf8')) as {
    scripts: Record<string, string>;
  };
  return Object.keys(manifest.scripts)
    .filter((name) => name.startsWith(PREFIX))
    .map((name) => name.slice(PREFIX.length));
}

function run(name: string): Promise<Outcome> {
  const startedAt = performance.now();
  const color = process.stdout.isTTY ? { FORCE_COLOR: '1' } : { NO_COLOR: '1' };
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--run', PREFIX + name],
      { env: { ...process.env, ...color }, maxBuffer: MAX_OUTPUT_BYTES },
      (error, stdout, stderr) =>
        resolve({
          name,
          ok: error === null,
          output: stdout + stderr,
          seconds: ((performance.now() - startedAt) / 1000).toFixed(1),
        }),
    );
  });
}
