import { once } from 'node:events';
import { startPaymentServer } from './payment-server.ts';
import type { TestMintSwitches } from './test-mint/switches.ts';
import { TestMint } from './test-mint.ts';

/**
 * Runs the test mint as a process: `node demo/test-mint-main.ts [port] [switches as JSON]`.
 *
 * After the mint has started, the process prints one JSON line, `{"url": …, "payUrl": …}`. It pays each invoice
 * that is posted to `payUrl`, which has a different port than the mint. It exits on SIGTERM and SIGINT.
 */
const [port = '0', switches = '{}'] = process.argv.slice(2);
const mint = await TestMint.start({
  port: Number(port),
  switches: JSON.parse(switches) as Partial<TestMintSwitches>,
});

const paymentServer = await startPaymentServer(mint);
process.stdout.write(`${JSON.stringify({ url: mint.url, payUrl: paymentServer.url })}\n`);

await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
paymentServer.close();
await mint.close();
