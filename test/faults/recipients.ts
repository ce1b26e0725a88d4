import { TestWallet } from '../helpers/wallet.ts';
import type { Mints } from './mints.ts';
import type { Site } from './site.ts';
import type { Recipient } from './truth.ts';

const RECIPIENTS = 40;

/** Every so many of them want locked quotes (NUT-20). */
const RECIPIENTS_PER_LOCKED = 5;

/** Makes the recipients of a run, each with the mint and the lock that it wants. */
export async function settleIn(site: Site, mints: Mints): Promise<Recipient[]> {
  const [{ origin }] = site.processes as [Site['processes'][number]];
  return await Promise.all(
    Array.from({ length: RECIPIENTS }, async (_, index) => {
      const wallet = new TestWallet(origin);
      const mint = mints.of(index);
      if (mint !== mints.default) {
        await change(wallet, '/api/v2/user/mint', { mint_url: mint.mint.url });
      }
      if (index % RECIPIENTS_PER_LOCKED === 1) {
        await change(wallet, '/api/v2/user/lock', { lockQuotes: true });
      }
      return { index, wallet, mint };
    }),
  );
}

async function change(wallet: TestWallet, path: string, body: object): Promise<void> {
  const { status } = await wallet.send('PATCH', path, body);
  if (status !== 200) {
    throw new Error(`${path} was refused with ${status} before the storm began`);
  }
}
