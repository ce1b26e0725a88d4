import { once } from 'node:events';
import { openPayDesk } from './pay-desk.ts';
import type { TestMintSwitches } from './test-mint/switches.ts';
import { TestMint } from './test-mint.ts';

/**
 * The test mint in a process of its own: `node demo/test-mint-main.ts [port] [switches as JSON]`.
 *
 * Prints one line, `{"url", "payUrl"}`, when it listens; an invoice that is posted to `payUrl`, a
 * port apart from the mint's own, is paid. Ends on SIGTERM and SIGINT.
 */
const [port = '0', switches = '{}'] = process.argv.slice(2);
const mint = await TestMint.start({
  port: Number(port),
  switches: JSON.parse(switches) as Partial<TestMintSwitches>,
});

const payDesk = await openPayDesk(mint);
process.stdout.write(`${JSON.stringify({ url: mint.url, payUrl: payDesk.url })}\n`);

await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
payDesk.close();
await mint.close();
