import type { Dice } from '../../../demo/test-mint/dice.ts';
import { frame, OPCODES } from '../../helpers/raw-socket.ts';
import { hostile, hostileAuthorization, newMarker, type Stranger } from './hostile-requests.ts';

export const SOCKET_PATH = '/api/v2/ws/quote';

/** At least one path of each response format. */
const PATHS = [
  ...['/api/v2/info', '/api/v2/user/mint', SOCKET_PATH, '/.well-known/lnurlp/alice'],
  ...['/lnurl/verify/x', '/.well-known/nostr.json', '/nowhere'],
];

const PIPELINED = 20;
const MOST_MESSAGES = 12;

/**
 * Makes bytes whose framing is wrong, or correct in an unusual way. `mustBeAnswered`: the server must
 * respond, and not only close the connection. acceptance/connections.test.ts has the usual mistakes.
 */
export function framingCase(dice: Dice): { bytes: Buffer; mustBeAnswered: boolean } {
  const path = dice.pick(PATHS);
  const host = 'Host: x\r\n';
  const get = `GET ${path} HTTP/1.1\r\n${host}`;
  const post = `${dice.pick(['POST', 'PATCH', 'GET'])} ${path} HTTP/1.1\r\n${host}`;
  const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
  const whole = `${get}Connection: close\r\n\r\n`;
  const length = dice.pick(['-1', '1e3', '0x10', '', '+5', '5 5', '99999999999999999999', 'x']);
  const encoding = dice.pick(['chunked, identity', 'xchunked', 'gzip, x', 'identity']);
  const chunkSize = dice.pick(['-1', 'ffffffffffffffffff', 'zz', '0x5', ' 5', '5 ', '']);
  const answered = [
    `GET ${path} HTTP/${dice.pick(['9.9', '1.2', '11', '1.1.1', 'x', '', '-1.1'])}\r\n${host}\r\n`,
    `${get}${'{}[]"'.repeat(40)}\r\n\r\n`,
    `${post}Content-Length: ${length}\r\n\r\nhello`,
    `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `${post}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
    `${get}X-Cashu: ${'c'.repeat(dice.pick([66_000, 200_000]))}\r\n\r\n`,
  ];
  const silent = [
    `GET ${path}\r\n\r\n`,
    whole.replaceAll('\r\n', dice.pick(['\n', '\r', '\n\r', '\r\r\n', '\u0000\r\n'])),
    whole.replace('x\r\n', dice.pick(['x\r\n folded\r\n', 'x\ry\r\n', 'x\ny\r\n'])),
    `${get}\r\n`.repeat(PIPELINED) + hostile(dice, whole),
    whole.slice(0, Math.floor(dice.roll() * whole.length)),
    `${post}Content-Length: 10000\r\n\r\n{"a":`,
    `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${chunked}${chunkSize}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}5;${hostile(dice, 'a=b', 20_000)}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`,
    `${chunked}0\r\nX-Cashu: x\r\n__proto__: x\r\n${'T: x\r\n'.repeat(500)}\r\n`,
    `${get}${'X: y\r\n'.repeat(3_000)}\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004',
    'CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
    `\u0016\u0003\u0001\u0002\u0000\u0001\u0000${hostile(dice, 'x')}`,
    `${hostile(dice, 'x', 70_000)}\r\n\r\n`,
    `${get}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${hostile(dice, 'x')}`,
    `${post}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
  ];
  const mustBeAnswered = dice.happens(0.3);
  const bytes = Buffer.from(dice.pick(mustBeAnswered ? answered : silent), 'latin1');
  return { bytes, mustBeAnswered };
}

/** What a client sends on one quote socket, frame by frame. */
export interface SocketCase {
  signsIn: boolean;
  frames: readonly Buffer[];
  /** The last frame violates RFC 6455 or a limit, or signs nothing: the server must close. */
  isBroken: boolean;
  marker: string;
}

export function socketCase(dice: Dice, stranger: Stranger): SocketCase {
  const marker = newMarker(dice);
  const count = 1 + Math.floor(dice.roll() * MOST_MESSAGES);
  const signsIn = dice.happens(0.4);
  const frames = Array.from({ length: count }, () => oddFrame(dice, marker));
  const isBroken = dice.happens(0.5);
  const last = !signsIn && dice.happens(0.4) ? wrongAnswer(dice, stranger) : brokenFrame(dice);
  return { signsIn, frames: isBroken ? [...frames, last] : frames, isBroken, marker };
}

/** A valid frame whose content is wrong, or means nothing to the server. */
function oddFrame(dice: Dice, marker: string): Buffer {
  const message = JSON.stringify({ type: marker, payload: hostile(dice, marker) });
  return dice.pick([
    frame(message),
    frame(hostile(dice, message, 10_000)),
    frame(message, { opcode: OPCODES.binary }),
    frame(`{"type":"ping","type":"${marker}","__proto__":{"type":"ping"}}`),
    frame('['.repeat(10_000)),
    frame(''),
    frame(marker, { opcode: OPCODES.pong }),
    Buffer.concat([
      frame('{"type":', { isLast: false }),
      frame('', { opcode: OPCODES.ping }),
      frame('"ping"}', { opcode: OPCODES.continuation }),
    ]),
  ]);
}

/** An answer to the challenge that signs another method, or nothing. */
function wrongAnswer(dice: Dice, stranger: Stranger): Buffer {
  const [authorization] = hostileAuthorization(dice, stranger, SOCKET_PATH, 'POST');
  return frame(JSON.stringify({ type: 'challenge-response', payload: authorization ?? 7 }));
}

function brokenFrame(dice: Dice): Buffer {
  const text = '{"type":"ping"}';
  const close = { opcode: 8 };
  return dice.pick([
    frame(text, { opcode: dice.pick([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]) }),
    // Reserved bits.
    frame(text, { opcode: OPCODES.text | (dice.pick([1, 2, 3, 4, 5, 6, 7]) << 4) }),
    // Not masked.
    Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]),
    frame(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    frame('x'.repeat(20_000)),
    // A length of 2^63, of 2^32, and of more than JavaScript can count.
    Buffer.from(
      `81ff${dice.pick(['80', '0000000100', '0020000000000001'])}`.padEnd(30, '0'),
      'hex',
    ),
    frame('x'.repeat(126), { opcode: OPCODES.ping }),
    frame('', { opcode: OPCODES.ping, isLast: false }),
    frame(text, { opcode: OPCODES.continuation }),
    Buffer.concat([frame(text, { isLast: false }), frame(text)]),
    Buffer.concat([
      frame('x', { isLast: false }),
      ...new Array<Buffer>(200).fill(
        frame('x'.repeat(120), { opcode: OPCODES.continuation, isLast: false }),
      ),
    ]),
    frame(Buffer.from([0x03]), close),
    frame(Buffer.from([0x00, 0x01]), close),
    frame(Buffer.from([0x03, 0xe8, 0xff]), close),
    frame('', close),
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
  ]);
}
