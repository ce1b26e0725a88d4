import { finalizeEvent } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';
import { onTestFinished } from 'vitest';
import type { RecipientClient } from './recipient-client.ts';

/** Creates a client of npubcash-sdk that uses a wallet's key. */
export function createSdkClient(wallet: RecipientClient, origin = wallet.origin): NPCClient {
  const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
    finalizeEvent(event, wallet.secretKey);
  return new NPCClient(origin, new JWTAuthProvider(origin, sign));
}

export interface SdkSubscription {
  ready: Promise<void>;
  /** The quote id. */
  updated: Promise<string>;
  /** The message of the first error. */
  failed: Promise<string>;
}

/** Subscribes to quote updates until the test ends. Calls `onUpdate` for each. */
export function subscribeWithSdk(
  sdk: NPCClient,
  onUpdate: () => void = () => undefined,
): SdkSubscription {
  const updated = Promise.withResolvers<string>();
  const failed = Promise.withResolvers<string>();
  const ready = Promise.withResolvers<void>();
  const ignore = () => undefined;
  sdk.setLogger({
    info: ignore,
    warn: ignore,
    error: ignore,
    // Only the log of the SDK shows when it has authenticated.
    debug: (message: string) => {
      if (message === 'WebSocket challenge success') {
        ready.resolve();
      }
    },
  });
  onTestFinished(
    sdk.subscribe((quoteId) => {
      updated.resolve(quoteId);
      onUpdate();
    }, failed.resolve),
  );
  return { ready: ready.promise, updated: updated.promise, failed: failed.promise };
}
