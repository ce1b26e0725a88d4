import { json } from 'node:stream/consumers';
import { generateSecretKey } from 'nostr-tools';
import { finalizeEvent } from 'nostr-tools/wasm';
import { WebSocket } from 'ws';
import { loadNostrWasm } from '../../src/auth/nostr-wasm.ts';
import { monotonicMs } from '../harness/monotonic.ts';

/** Which quote sockets to open and hold: standard input. */
export interface SocketPlan {
  serviceUrl: string;
  /** What the challenge has to name. */
  challengeUrl: string;
  /** Where the connections come from: each address has some 28,000 ports. */
  localAddress: string;
  /** Sockets that each have a key of their own. */
  single: number;
  /** Sockets that have one key together. */
  shared: number;
  /** That key, hex; other processes may have sockets of it too. */
  sharedKey: string;
}

/** The first line of standard output: all are authenticated. */
export interface SocketsOpened {
  /** Hex: some keys that have one socket each. */
  pubkeys: string[];
  /** Hex. */
  sharedPubkey: string;
}

/** Every later line: all sockets here that have the key have heard of a change. */
export interface UpdateHeard {
  quoteId: string;
  /** When the last of them had ({@link monotonicMs}). */
  atMs: number;
}

interface SocketMessage {
  type: string;
  payload?: { url: string; method: string; quoteId: string };
}

/** NIP-98. */
const HTTP_AUTH = 27_235;

/** Sockets that are opened at a time: within what the system keeps waiting for a busy process. */
const CONCURRENCY = 32;

const MOST_PUBKEYS = 100;

/** Holds quote sockets as wallets do, and tells when they were told something. */

const plan = (await json(process.stdin)) as SocketPlan;
await loadNostrWasm();
const socketsOf = new Map<string, number>();
const heardBy = new Map<string, number>();
const sharedKey = Buffer.from(plan.sharedKey, 'hex');

const keys = [
  ...Array.from({ length: plan.single }, generateSecretKey),
  ...Array<Uint8Array>(plan.shared).fill(sharedKey),
].values();
const pubkeys: string[] = [];
await Promise.all(
  Array.from({ length: CONCURRENCY }, async () => {
    for (const key of keys) {
      const pubkey = await openSocket(key);
      socketsOf.set(pubkey, (socketsOf.get(pubkey) ?? 0) + 1);
      pubkeys.push(pubkey);
    }
  }),
);
say({
  pubkeys: pubkeys.slice(0, MOST_PUBKEYS),
  sharedPubkey: pubkeys.at(-1) ?? '',
} satisfies SocketsOpened);

/** @returns its pubkey, once the socket is authenticated */
function openSocket(secretKey: Uint8Array): Promise<string> {
  const { promise: authenticated, resolve } = Promise.withResolvers<string>();
  let pubkey = '';
  const url = `${plan.serviceUrl.replace(/^http/, 'ws')}/api/v2/ws/quote`;
  const socket = new WebSocket(url, { localAddress: plan.localAddress });
  socket.on('message', (data) => {
    const { type, payload } = JSON.parse(String(data)) as SocketMessage;
    if (type === 'challenge' && payload?.url === plan.challengeUrl) {
      const event = finalizeEvent(responseTo(payload), secretKey);
      ({ pubkey } = event);
      const encoded = Buffer.from(JSON.stringify(event)).toString('base64');
      socket.send(JSON.stringify({ type: 'challenge-response', payload: `Nostr ${encoded}` }));
    } else if (type === 'challenge-success') {
      resolve(pubkey);
    } else if (type === 'update' && payload !== undefined) {
      hear(pubkey, payload.quoteId);
    } else {
      throw new Error(`the quote socket said ${String(data)}`);
    }
  });
  socket.on('close', (code) => {
    throw new Error(`a quote socket closed with ${code}`);
  });
  return authenticated;
}

function responseTo({ url, method }: { url: string; method: string }) {
  return {
    kind: HTTP_AUTH,
    created_at: Math.floor(Date.now() / 1000),
    content: '',
    tags: [
      ['u', url],
      ['method', method],
    ],
  };
}

function hear(pubkey: string, quoteId: string): void {
  const heard = (heardBy.get(quoteId) ?? 0) + 1;
  heardBy.set(quoteId, heard);
  if (heard === socketsOf.get(pubkey)) {
    say({ quoteId, atMs: monotonicMs() } satisfies UpdateHeard);
  }
}

function say(message: SocketsOpened | UpdateHeard): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}
