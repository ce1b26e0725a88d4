import { GuardedFetch } from './guarded-fetch.ts';
import { createGuardedWebSocketConnector, type WebSocketConnector } from './guarded-websocket.ts';
import { FETCH_LIMITS, type FetchLimits } from './limits.ts';
import { NetworkThread, type NetworkThreadStop } from './network-thread.ts';

interface EgressOptions {
  allowPrivateNetworks: boolean;
  /** The mints and relays that the operator named. */
  operatorUrls: readonly string[];
  fetchLimits?: Partial<FetchLimits> | undefined;
  monotonicMs?: () => number;
  onNetworkThreadStopped?: (stop: NetworkThreadStop) => void;
}

export type Egress = ReturnType<typeof createEgress>;

/** Connects to the hosts that the operator named from this thread, and to all others from the {@link NetworkThread}. */
export function createEgress(options: EgressOptions) {
  const { allowPrivateNetworks, operatorUrls } = options;
  const limits = { ...FETCH_LIMITS, ...options.fetchLimits };
  const networkThread = new NetworkThread({
    allowPrivateNetworks,
    limits,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    onStopped: options.onNetworkThreadStopped ?? (() => undefined),
  });
  // Hosts, because the scheme of a WebSocket URL differs from that of its mint.
  const operatorHosts = new Set(operatorUrls.map((url) => new URL(url).host));
  const operatorOrigins = operatorUrls.map((url) => new URL(url).origin);
  const connectDirectly = createGuardedWebSocketConnector({ allowPrivateNetworks });
  const connect: WebSocketConnector = (url) =>
    operatorHosts.has(new URL(url).host) ? connectDirectly(url) : networkThread.connect(url);
  return {
    connect,
    /** Creates an HTTP client with connections and limits of its own. */
    createFetch: () =>
      new GuardedFetch({
        allowPrivateNetworks,
        operatorOrigins,
        otherClient: networkThread.createHttpClient(),
        limits,
      }),
    close: () => networkThread.close(),
  };
}
