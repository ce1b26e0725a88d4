import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import { openPayDesk } from '../../src/demo/pay-desk.ts';
import { TestMint } from '../../src/demo/test-mint.ts';

/** Which mints: standard input. */
export interface TestMintsPlan {
  mints: number;
  /** Every answer waits so long; 0: they answer at once. */
  delayMs: number;
}

/** The line of standard output: each mint, and where an invoice of it that is posted gets paid. */
export interface TestMintsStart {
  mints: { url: string; payUrl: string }[];
}

/** Test mints in one process. */

const plan = (await json(process.stdin)) as TestMintsPlan;
const opened = await Promise.all(
  Array.from({ length: plan.mints }, async () => {
    const mint = await TestMint.start({ switches: { delayMs: plan.delayMs } });
    return { mint, payDesk: await openPayDesk(mint) };
  }),
);
const mints = opened.map(({ mint, payDesk }) => ({ url: mint.url, payUrl: payDesk.url }));
process.stdout.write(`${JSON.stringify({ mints } satisfies TestMintsStart)}\n`);

await once(process, 'SIGTERM');
await Promise.all(
  opened.map(async ({ mint, payDesk }) => {
    payDesk.close();
    await mint.close();
  }),
);
