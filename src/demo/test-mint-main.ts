import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { TestMintSwitches } from './test-mint/switches.ts';
import { TestMint } from './test-mint.ts';

/**
 * The test mint in a process of its own: `node src/demo/test-mint-main.ts [port] [switches as JSON]`.
 *
 * Prints one line, `{"url", "payUrl"}`, when it listens; `POST {"request"}` to `payUrl`, a port
 * apart from the mint's own, pays an invoice. Ends on SIGTERM and SIGINT.
 */
const [port = '0', switches = '{}'] = process.argv.slice(2);
const mint = await TestMint.start({
  port: Number(port),
  switches: JSON.parse(switches) as Partial<TestMintSwitches>,
});

const payer = createServer((request, response) => {
  text(request)
    .then((body) => {
      mint.pay((JSON.parse(body) as { request: string }).request);
      response.writeHead(204).end();
    })
    .catch((error: unknown) => response.writeHead(400).end(String(error)));
});
payer.listen(0, '127.0.0.1');
await once(payer, 'listening');
const { port: payPort } = payer.address() as AddressInfo;
const payUrl = `http://127.0.0.1:${payPort}/__test__/pay`;
process.stdout.write(`${JSON.stringify({ url: mint.url, payUrl })}\n`);

await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
payer.close();
payer.closeAllConnections();
await mint.close();
