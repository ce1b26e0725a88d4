import { finalizeEvent } from 'nostr-tools';
import { JWTAuthProvider, NPCClient } from 'npubcash-sdk';
import { onTestFinished } from 'vitest';
import type { RecipientClient } from './recipient-client.ts';

export function createSdkClient(wallet: RecipientClient, origin = wallet.origin): NPCClient {
  const sign = async (event: Parameters<typeof finalizeEvent>[0]) =>
    finalizeEvent(event, wallet.secretKey);
  return new NPCClient(origin, new JWTAuthProvider(origin, sign));
}

/** Subscribes to quote updates until the test ends. @returns promises of the authentication and of the first quote id */
export function subscribeWithSdk(sdk: NPCClient): {
  ready: Promise<void>;
  updated: Promise<string>;
} {
  const updated = Promise.withResolvers<string>();
  const ready = Promise.withResolvers<void>();
  const ignore = () => undefined;
  // Only the log of the SDK shows when it has authenticated.
  const debug = (message: string) => {
    if (message === 'WebSocket challenge success') {
      ready.resolve();
    }
  };
  sdk.setLogger({ info: ignore, warn: ignore, error: ignore, debug });
  onTestFinished(sdk.subscribe(updated.resolve, updated.reject));
  return { ready: ready.promise, updated: updated.promise };
}
