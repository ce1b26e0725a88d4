import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { percentile } from './statistics.ts';

const SECONDS = 3;
const PAUSE_MS = 5;

/** What a commit brings to the disk at least. */
const PAGE = Buffer.alloc(8_192, 1);

/**
 * How long the disk of the databases takes to sync one page while nothing else is at work, for the head of the
 * table: whoever waits for a commit waits for that too, and on a machine that is shared it is mostly others'.
 */
export async function describeDisk(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'nutpost-disk-'));
  try {
    const tookMs = await syncs(path.join(folder, 'page'));
    const [half, most] = [0.5, 0.99].map((share) => percentile(tookMs, share).toFixed(1));
    return `a sync of the disk takes ${half} ms, one in a hundred ${most} ms`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function syncs(file: string): Promise<number[]> {
  await using page = await open(file, 'w');
  const tookMs: number[] = [];
  const endsAt = performance.now() + SECONDS * 1000;
  while (performance.now() < endsAt) {
    const startedAt = performance.now();
    await page.write(PAGE, 0, PAGE.length, 0);
    await page.datasync();
    tookMs.push(performance.now() - startedAt);
    await delay(PAUSE_MS);
  }
  return tookMs;
}
