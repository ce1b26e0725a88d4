import type { Client } from '../faults/client.ts';
import type { Site } from '../faults/site.ts';
import type { TestWallet } from '../helpers/wallet.ts';

/** So many questions are asked at a time. */
const ASKERS = 8;

/** Who has which name, as one process tells everybody. */
export interface OutsideView {
  process: string;
  /** By NIP-05: the key of a name. */
  owners: Map<string, string>;
  /** The names that a payer's wallet can pay to. */
  payable: Set<string>;
  /** By its own user info: the name of a key. */
  names: Map<string, string>;
}

/** Asks every process for all of these names and keys. */
export async function lookFromOutside(
  site: Site,
  client: Client,
  names: ReadonlySet<string>,
  buyers: ReadonlyMap<string, TestWallet>,
): Promise<OutsideView[]> {
  const views: OutsideView[] = [];
  for (const { name: process, origin } of site.processes) {
    const view: OutsideView = { process, owners: new Map(), payable: new Set(), names: new Map() };
    await eachOf(names, async (name) => {
      const entry = await client.ask(origin, `/.well-known/nostr.json?name=${name}`);
      const owner = entry?.body.names?.[name];
      if (typeof owner === 'string') {
        view.owners.set(name, owner);
      }
      const discovery = await client.ask(origin, `/.well-known/lnurlp/${name}`);
      if (discovery?.body.tag === 'payRequest') {
        view.payable.add(name);
      }
    });
    await eachOf(buyers, async ([pubkey, wallet]) => {
      const path = '/api/v2/user/info';
      const headers = { authorization: wallet.at(origin).sign(path) };
      const name = (await client.ask(origin, path, { headers }))?.body.data?.user.name;
      if (typeof name === 'string') {
        view.names.set(pubkey, name);
      }
    });
    views.push(view);
  }
  return views;
}

async function eachOf<T>(things: Iterable<T>, ask: (thing: T) => Promise<void>): Promise<void> {
  const waiting = things[Symbol.iterator]();
  const asker = async () => {
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) {
      await ask(next.value);
    }
  };
  await Promise.all(Array.from({ length: ASKERS }, asker));
}
