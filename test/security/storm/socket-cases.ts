import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import { strangeCredentials } from './authorizations.ts';
import { damaged, strangeText, strangeValue } from './strange-text.ts';
import type { Stranger } from './stranger.ts';

/** Where quote sockets are opened. */
export const SOCKET_PATH = '/api/v2/ws/quote';

/** RFC 6455 section 5.2. */
export const OPCODE = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** What is sent on one quote socket, frame by frame. */
export interface SocketCase {
  /** Proves its key first. */
  signsIn: boolean;
  frames: readonly Buffer[];
  /** Whether the last frame breaks RFC 6455 or a limit, or signs nothing: the server must hang up. */
  isBroken: boolean;
  marker: string;
}

/** A frame's bits, where they should differ from what is right. */
interface FrameOptions {
  opcode?: number;
  isLast?: boolean;
  isMasked?: boolean;
  reservedBits?: number;
  /** What its header says of its length. */
  claimedLength?: bigint;
}

const MOST_MESSAGES = 12;
const SIGNED_IN_SHARE = 0.4;
const BROKEN_SHARE = 0.5;
const REFUSED_SHARE = 0.4;
/** More than any message has. */
const OVERSIZED = 20_000;
const FLOOD = 200;

/** Rolls what a stranger sends on a socket. */
export function socketCase(dice: Dice, stranger: Stranger): SocketCase {
  const marker = `m4rk${Math.floor(dice.roll() * 2 ** 40).toString(36)}`;
  const count = 1 + Math.floor(dice.roll() * MOST_MESSAGES);
  const signsIn = dice.happens(SIGNED_IN_SHARE);
  const frames = Array.from({ length: count }, () => oddFrames(dice, marker, stranger, signsIn));
  const isBroken = dice.happens(BROKEN_SHARE);
  const isRefused = isBroken && !signsIn && dice.happens(REFUSED_SHARE);
  const last = isRefused ? wrongAnswer(dice, stranger) : brokenFrame(dice);
  return {
    signsIn,
    frames: isBroken ? [...frames.flat(), last] : frames.flat(),
    isBroken,
    marker,
  };
}

/** A frame as clients send them: masked (RFC 6455 section 5.3). */
export function frame(payload: Buffer | string, options: FrameOptions = {}): Buffer {
  const { opcode = OPCODE.text, isLast = true, isMasked = true, reservedBits = 0 } = options;
  const bytes = Buffer.from(payload);
  const length = options.claimedLength ?? BigInt(bytes.length);
  const head = [(isLast ? 0x80 : 0) | (reservedBits << 4) | opcode];
  const maskBit = isMasked ? 0x80 : 0;
  if (length < 126n) {
    head.push(maskBit | Number(length));
  } else if (length < 65_536n) {
    head.push(maskBit | 126, Number(length >> 8n), Number(length & 0xffn));
  } else {
    head.push(maskBit | 127);
    for (let shift = 56n; shift >= 0n; shift -= 8n) {
      head.push(Number((length >> shift) & 0xffn));
    }
  }
  // Masked with zeros, a payload is itself.
  return Buffer.concat([Buffer.from(head), Buffer.alloc(isMasked ? 4 : 0), bytes]);
}

/** Right as frames; what is in them is not, or is nothing to the server. */
function oddFrames(dice: Dice, marker: string, stranger: Stranger, signsIn: boolean): Buffer[] {
  const message = JSON.stringify({ type: marker, payload: strangeValue(dice) });
  return dice.pick<() => Buffer[]>([
    () => [frame('{"type":"ping"}')],
    () => [frame(message)],
    () => [frame(damaged(dice, message))],
    () => [frame(message, { opcode: OPCODE.binary })],
    () => [frame(JSON.stringify(strangeValue(dice)))],
    () => [frame(`{"type":${JSON.stringify(strangeValue(dice))}}`)],
    () => [frame(`{"type":"ping","type":"${marker}","__proto__":{"type":"ping"}}`)],
    () => [frame('['.repeat(10_000))],
    () => [frame(strangeText(dice, 10_000))],
    () => [frame('')],
    () => [frame('', { opcode: OPCODE.ping })],
    () => [frame(strangeText(dice, 120).slice(0, 120), { opcode: OPCODE.ping })],
    () => [frame(marker, { opcode: OPCODE.pong })],
    () => [
      frame('{"type":', { isLast: false }),
      frame('', { opcode: OPCODE.ping }),
      frame('"ping"}', { opcode: OPCODE.more }),
    ],
    // Who has answered the challenge once is not asked again; before, a wrong answer is the last.
    () => (signsIn ? [wrongAnswer(dice, stranger)] : [frame('{"type":"challenge"}')]),
  ])();
}

/** It signs another method than the challenge says, or nothing at all. */
function wrongAnswer(dice: Dice, stranger: Stranger): Buffer {
  const asked = { stranger, pathname: SOCKET_PATH, method: 'POST' };
  const { headers } = strangeCredentials(dice, asked);
  return frame(JSON.stringify({ type: 'challenge-response', payload: headers[0]?.[1] ?? 7 }));
}

/** Breaks the protocol. */
function brokenFrame(dice: Dice): Buffer {
  const text = '{"type":"ping"}';
  return dice.pick<() => Buffer>([
    () => frame(text, { opcode: dice.pick([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]) }),
    () => frame(text, { isMasked: false }),
    () => frame(text, { reservedBits: dice.pick([1, 2, 3, 4, 5, 6, 7]) }),
    () => frame(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    () => frame('x'.repeat(OVERSIZED)),
    () =>
      frame('x', { claimedLength: dice.pick([2n ** 63n, 2n ** 62n, 2n ** 32n, 2n ** 53n + 1n]) }),
    () => frame('x'.repeat(126), { opcode: OPCODE.ping }),
    () => frame('', { opcode: OPCODE.ping, isLast: false }),
    () => frame(text, { opcode: OPCODE.more }),
    () => Buffer.concat([frame(text, { isLast: false }), frame(text)]),
    () =>
      Buffer.concat([
        frame('x', { isLast: false }),
        ...new Array<Buffer>(FLOOD).fill(
          frame('x'.repeat(120), { opcode: OPCODE.more, isLast: false }),
        ),
      ]),
    () => frame(Buffer.from([0x03]), { opcode: OPCODE.close }),
    () => frame(Buffer.from([0x00, 0x01]), { opcode: OPCODE.close }),
    () => frame(Buffer.from([0x03, 0xe8, 0xff]), { opcode: OPCODE.close }),
    () => frame('', { opcode: OPCODE.close }),
    () => Buffer.from(`GET / HTTP/1.1\r\nHost: x\r\n\r\n`),
  ])();
}
