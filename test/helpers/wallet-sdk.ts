import { finalizeEvent } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';
import { onTestFinished } from 'vitest';
import type { TestWallet } from './test-wallet.ts';

/** The unmodified npubcash-sdk, with a wallet's key. */
export function createSdkClient(wallet: TestWallet, base = wallet.origin): NPCClient {
  const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
    finalizeEvent(event, wallet.secretKey);
  return new NPCClient(base, new JWTAuthProvider(base, sign));
}

/** A subscription of the SDK that ends with the test. */
export interface SdkSubscription {
  ready: Promise<void>;
  /** The quote id of the first update. */
  updated: Promise<string>;
  failed: Promise<string>;
}

export function subscribeWithSdk(sdk: NPCClient): SdkSubscription {
  const updated = Promise.withResolvers<string>();
  const failed = Promise.withResolvers<string>();
  const ready = Promise.withResolvers<void>();
  const ignore = () => undefined;
  sdk.setLogger({
    info: ignore,
    warn: ignore,
    error: ignore,
    debug: (message: string) => {
      if (message === 'WebSocket challenge success') {
        ready.resolve();
      }
    },
  });
  onTestFinished(sdk.subscribe(updated.resolve, failed.resolve));
  return { ready: ready.promise, updated: updated.promise, failed: failed.promise };
}
