import type { Dice } from '../../../demo/test-mint/dice.ts';
import { type Stranger, strangeCredentials } from './credentials.ts';
import { damaged, strangeText, strangeValue } from './strange.ts';

export const SOCKET_PATH = '/api/v2/ws/quote';

/** RFC 6455 section 5.2. */
const OPCODE = { more: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };

/** What a client sends on one quote socket, frame by frame. */
export interface SocketCase {
  signsIn: boolean;
  frames: readonly Buffer[];
  /** The last frame violates RFC 6455 or a limit, or signs nothing: the server must close. */
  isBroken: boolean;
  marker: string;
}

interface FrameOptions {
  opcode?: number;
  isLast?: boolean;
  isMasked?: boolean;
  reservedBits?: number;
  claimedLength?: bigint;
}

const MOST_MESSAGES = 12;

export function socketCase(dice: Dice, stranger: Stranger): SocketCase {
  const marker = `m4rk${Math.floor(dice.roll() * 2 ** 40).toString(36)}`;
  const count = 1 + Math.floor(dice.roll() * MOST_MESSAGES);
  const signsIn = dice.happens(0.4);
  const frames = Array.from({ length: count }, () => oddFrame(dice, marker));
  const isBroken = dice.happens(0.5);
  const isRefused = !signsIn && dice.happens(0.4);
  const last = isRefused ? wrongAnswer(dice, stranger) : brokenFrame(dice);
  return { signsIn, frames: isBroken ? [...frames, last] : frames, isBroken, marker };
}

/** A frame of a client: masked (RFC 6455 section 5.3), with zeros. */
function frame(payload: Buffer | string, options: FrameOptions = {}): Buffer {
  const { opcode = OPCODE.text, isLast = true, isMasked = true, reservedBits = 0 } = options;
  const bytes = Buffer.from(payload);
  const length = options.claimedLength ?? BigInt(bytes.length);
  const maskBit = isMasked ? 0x80 : 0;
  const head = Buffer.alloc(10);
  head[0] = (isLast ? 0x80 : 0) | (reservedBits << 4) | opcode;
  let headLength = 2;
  if (length < 126n) {
    head[1] = maskBit | Number(length);
  } else if (length < 65_536n) {
    head[1] = maskBit | 126;
    head.writeUInt16BE(Number(length), 2);
    headLength = 4;
  } else {
    head[1] = maskBit | 127;
    head.writeBigUInt64BE(length, 2);
    headLength = 10;
  }
  return Buffer.concat([head.subarray(0, headLength), Buffer.alloc(isMasked ? 4 : 0), bytes]);
}

/** A valid frame whose content is wrong, or means nothing to the server. */
function oddFrame(dice: Dice, marker: string): Buffer {
  const message = JSON.stringify({ type: marker, payload: strangeValue(dice) });
  return dice.pick([
    frame('{"type":"ping"}'),
    frame(message),
    frame(damaged(dice, message)),
    frame(message, { opcode: OPCODE.binary }),
    frame(JSON.stringify(strangeValue(dice))),
    frame(`{"type":"ping","type":"${marker}","__proto__":{"type":"ping"}}`),
    frame('['.repeat(10_000)),
    frame(strangeText(dice, 10_000)),
    frame(''),
    frame('', { opcode: OPCODE.ping }),
    frame(marker, { opcode: OPCODE.pong }),
    Buffer.concat([
      frame('{"type":', { isLast: false }),
      frame('', { opcode: OPCODE.ping }),
      frame('"ping"}', { opcode: OPCODE.more }),
    ]),
  ]);
}

/** An answer to the challenge that signs another method, or nothing. */
function wrongAnswer(dice: Dice, stranger: Stranger): Buffer {
  const { headers } = strangeCredentials(dice, stranger, SOCKET_PATH, 'POST');
  return frame(JSON.stringify({ type: 'challenge-response', payload: headers[0]?.[1] ?? 7 }));
}

function brokenFrame(dice: Dice): Buffer {
  const text = '{"type":"ping"}';
  const close = { opcode: OPCODE.close };
  return dice.pick([
    frame(text, { opcode: dice.pick([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]) }),
    frame(text, { isMasked: false }),
    frame(text, { reservedBits: dice.pick([1, 2, 3, 4, 5, 6, 7]) }),
    frame(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    frame('x'.repeat(20_000)),
    frame('x', { claimedLength: dice.pick([2n ** 63n, 2n ** 32n, 2n ** 53n + 1n]) }),
    frame('x'.repeat(126), { opcode: OPCODE.ping }),
    frame('', { opcode: OPCODE.ping, isLast: false }),
    frame(text, { opcode: OPCODE.more }),
    Buffer.concat([frame(text, { isLast: false }), frame(text)]),
    Buffer.concat([
      frame('x', { isLast: false }),
      ...new Array<Buffer>(200).fill(
        frame('x'.repeat(120), { opcode: OPCODE.more, isLast: false }),
      ),
    ]),
    frame(Buffer.from([0x03]), close),
    frame(Buffer.from([0x00, 0x01]), close),
    frame(Buffer.from([0x03, 0xe8, 0xff]), close),
    frame('', close),
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
  ]);
}
