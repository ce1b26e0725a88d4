import { RequestError } from '../errors.ts';
import { createLogger } from '../log.ts';
import { MintPolicy } from '../mints/mint-policy.ts';
import { createMintsModule } from '../mints/mints-module.ts';
import { createEgress } from '../net/egress.ts';
import { RecipientDirectory } from '../recipients/recipient-directory.ts';
import { setMint } from '../recipients/recipient-settings.ts';
import type { CommandContext, CommandReport } from './command.ts';
import { pubkeyToText } from './format.ts';

/** Sets a user's mint, after the checks that a change by the user passes. Contacts the mint. */
export async function setUserMint(
  { config, db, systemUser, clock }: CommandContext,
  pubkey: string,
  enteredUrl: string,
): Promise<CommandReport> {
  const audit = { systemUser, action: 'user set-mint' };
  const monotonicMs = () => performance.now();
  const shared = { db, clock, monotonicMs, log: createLogger('silent') };
  const { allowPrivateNetworks, defaultMintUrl, defaultLockQuotes } = config;
  const egress = createEgress({ allowPrivateNetworks, operatorUrls: [] });
  const mintPolicy = new MintPolicy(config);
  const onRequestFinished = () => undefined;
  const mints = createMintsModule({ ...shared, policy: mintPolicy, egress, onRequestFinished });
  const defaults = { mintUrl: defaultMintUrl, lockQuotes: defaultLockQuotes };
  const recipients = new RecipientDirectory({ ...shared, defaults, audit });
  try {
    const { mintUrl: oldMintUrl } = await recipients.getByPubkey(pubkey);
    const settings = { recipients, mintInfoCache: mints.infoCache, mintPolicy };
    const { name, mintUrl } = await setMint(settings, pubkey, enteredUrl);
    const who = pubkeyToText(pubkey, name);
    return {
      isSuccess: true,
      json: { outcome: 'changed', pubkey, name, mintUrl, oldMintUrl },
      lines: [`${who} receives at ${mintUrl} now. Invoices of before stay at ${oldMintUrl}.`],
    };
  } catch (error) {
    if (!(error instanceof RequestError)) {
      throw error;
    }
    const { code, message } = error;
    return {
      isSuccess: false,
      json: { outcome: code, pubkey },
      lines: [`Not changed: ${message}`],
    };
  } finally {
    await Promise.all([mints.close(), egress.close()]);
  }
}
