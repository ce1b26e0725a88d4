import './virtual-platform.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';

const realNow = process.hrtime.bigint;
const { World } = await import('./world.ts');
const { createTemplate } = await import('./template.ts');
const { loadEventVerifier } = await import('../../src/nostr/events.ts');

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seeds: { type: 'string', default: '1' },
    first: { type: 'string', default: '1' },
    payments: { type: 'string' },
    print: { type: 'boolean', default: false },
  },
});
await loadEventVerifier();
const folder = mkdtempSync(path.join(tmpdir(), 'nutpost-simulation-'));
const template = await createTemplate(folder);
const first = Number(values.seed ?? values.first);
const count = values.seed === undefined ? Number(values.seeds) : 1;
for (let seed = first; seed < first + count; seed += 1) {
  const startedAt = realNow();
  const world = new World({
    seed: String(seed),
    template,
    folder,
    isRecording: values.print,
    ...(values.payments && {
      scenario: { payments: Number(values.payments), instances: 2, mints: 5, activeMs: 60_000 },
    }),
  });
  await world.run();
  const seconds = Number(realNow() - startedAt) / 1e9;
  if (values.print) {
    console.log(world.history.render());
    console.log(world.history.hash());
  }
  console.log(
    `seed ${seed}: ${world.truth.paymentsByQuoteId.size} payments, ${world.failedInvoices} failed, ${world.scheduler.nowMs / 1000} s simulated in ${seconds.toFixed(2)} s, ${world.scheduler.eventCount} events, ${world.faults.kinds.length} kinds`,
  );
  for (const violation of world.referee.violations.slice(0, 10)) {
    console.log(`  ${violation.rule}: ${violation.text}`);
  }
  world.close();
}
rmSync(folder, { recursive: true });
