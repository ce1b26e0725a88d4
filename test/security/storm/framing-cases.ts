import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { encodeFrame, OPCODES } from '../../helpers/raw-websocket.ts';
import { type FuzzUser, generateAuthorization, generateMarker, mutate } from './request-cases.ts';

export const SOCKET_PATH = '/api/v2/ws/quote';

/** At least one path of each response format. */
const PATHS = [
  ...['/api/v2/info', '/api/v2/user/mint', SOCKET_PATH, '/.well-known/lnurlp/alice'],
  ...['/lnurl/verify/x', '/.well-known/nostr.json', '/nowhere'],
];

const PIPELINED = 20;
const MAX_MESSAGES = 12;

/**
 * Generates bytes with invalid or unusual HTTP framing. `mustBeAnswered`: the server must respond before it
 * closes the connection. Common mistakes are tested in acceptance/http-connections.test.ts.
 */
export function generateFramingCase(random: SeededRandom): {
  bytes: Buffer;
  mustBeAnswered: boolean;
} {
  const path = random.pick(PATHS);
  const host = 'Host: x\r\n';
  const get = `GET ${path} HTTP/1.1\r\n${host}`;
  const post = `${random.pick(['POST', 'PATCH', 'GET'])} ${path} HTTP/1.1\r\n${host}`;
  const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
  const whole = `${get}Connection: close\r\n\r\n`;
  const length = random.pick(['-1', '1e3', '0x10', '', '+5', '5 5', '99999999999999999999', 'x']);
  const encoding = random.pick(['chunked, identity', 'xchunked', 'gzip, x', 'identity']);
  const chunkSize = random.pick(['-1', 'ffffffffffffffffff', 'zz', '0x5', ' 5', '5 ', '']);
  const withResponse = [
    `GET ${path} HTTP/${random.pick(['9.9', '1.2', '11', '1.1.1', 'x', '', '-1.1'])}\r\n${host}\r\n`,
    `${get}${'{}[]"'.repeat(40)}\r\n\r\n`,
    `${post}Content-Length: ${length}\r\n\r\nhello`,
    `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `${post}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
    `${get}X-Cashu: ${'c'.repeat(random.pick([66_000, 200_000]))}\r\n\r\n`,
  ];
  const withOptionalResponse = [
    `GET ${path}\r\n\r\n`,
    whole.replaceAll('\r\n', random.pick(['\n', '\r', '\n\r', '\r\r\n', '\u0000\r\n'])),
    whole.replace('x\r\n', random.pick(['x\r\n folded\r\n', 'x\ry\r\n', 'x\ny\r\n'])),
    `${get}\r\n`.repeat(PIPELINED) + mutate(random, whole),
    whole.slice(0, Math.floor(random.next() * whole.length)),
    `${post}Content-Length: 10000\r\n\r\n{"a":`,
    `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${chunked}${chunkSize}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}5;${mutate(random, 'a=b', 20_000)}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`,
    `${chunked}0\r\nX-Cashu: x\r\n__proto__: x\r\n${'T: x\r\n'.repeat(500)}\r\n`,
    `${get}${'X: y\r\n'.repeat(3_000)}\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004',
    'CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
    `\u0016\u0003\u0001\u0002\u0000\u0001\u0000${mutate(random, 'x')}`,
    `${mutate(random, 'x', 70_000)}\r\n\r\n`,
    `${get}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${mutate(random, 'x')}`,
    `${post}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
  ];
  const mustBeAnswered = random.chance(0.3);
  const bytes = Buffer.from(
    random.pick(mustBeAnswered ? withResponse : withOptionalResponse),
    'latin1',
  );
  return { bytes, mustBeAnswered };
}

/** The frames that a client sends on one quote socket. */
export interface SocketCase {
  shouldAuthenticate: boolean;
  frames: readonly Buffer[];
  /** The last frame violates RFC 6455 or a limit, or fails authentication. The server must close the socket. */
  isBroken: boolean;
  marker: string;
}

export function generateSocketCase(random: SeededRandom, user: FuzzUser): SocketCase {
  const marker = generateMarker(random);
  const count = 1 + Math.floor(random.next() * MAX_MESSAGES);
  const shouldAuthenticate = random.chance(0.4);
  const frames = Array.from({ length: count }, () => generateInvalidMessage(random, marker));
  const isBroken = random.chance(0.5);
  const last =
    !shouldAuthenticate && random.chance(0.4)
      ? generateWrongChallengeResponse(random, user)
      : generateInvalidFrame(random);
  return {
    shouldAuthenticate,
    frames: isBroken ? [...frames, last] : frames,
    isBroken,
    marker,
  };
}

/** Generates a valid frame that the server must ignore or reject without closing the socket. */
function generateInvalidMessage(random: SeededRandom, marker: string): Buffer {
  const message = JSON.stringify({ type: marker, payload: mutate(random, marker) });
  return random.pick([
    encodeFrame(message),
    encodeFrame(mutate(random, message, 10_000)),
    encodeFrame(message, { opcode: OPCODES.binary }),
    encodeFrame(`{"type":"ping","type":"${marker}","__proto__":{"type":"ping"}}`),
    encodeFrame('['.repeat(10_000)),
    encodeFrame(''),
    encodeFrame(marker, { opcode: OPCODES.pong }),
    Buffer.concat([
      encodeFrame('{"type":', { isLast: false }),
      encodeFrame('', { opcode: OPCODES.ping }),
      encodeFrame('"ping"}', { opcode: OPCODES.continuation }),
    ]),
  ]);
}

/** Generates a challenge response that signs a different method, or nothing. */
function generateWrongChallengeResponse(random: SeededRandom, user: FuzzUser): Buffer {
  const [authorization] = generateAuthorization(random, user, SOCKET_PATH, 'POST');
  return encodeFrame(JSON.stringify({ type: 'challenge-response', payload: authorization ?? 7 }));
}

function generateInvalidFrame(random: SeededRandom): Buffer {
  const text = '{"type":"ping"}';
  const close = { opcode: 8 };
  return random.pick([
    encodeFrame(text, { opcode: random.pick([3, 4, 5, 6, 7, 11, 12, 13, 14, 15]) }),
    // Reserved bits set.
    encodeFrame(text, { opcode: OPCODES.text | (random.pick([1, 2, 3, 4, 5, 6, 7]) << 4) }),
    // Not masked.
    Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]),
    encodeFrame(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    encodeFrame('x'.repeat(20_000)),
    // A length of 2^63, of 2^32, and of more than JavaScript can count.
    Buffer.from(
      `81ff${random.pick(['80', '0000000100', '0020000000000001'])}`.padEnd(30, '0'),
      'hex',
    ),
    encodeFrame('x'.repeat(126), { opcode: OPCODES.ping }),
    encodeFrame('', { opcode: OPCODES.ping, isLast: false }),
    encodeFrame(text, { opcode: OPCODES.continuation }),
    Buffer.concat([encodeFrame(text, { isLast: false }), encodeFrame(text)]),
    Buffer.concat([
      encodeFrame('x', { isLast: false }),
      ...new Array<Buffer>(200).fill(
        encodeFrame('x'.repeat(120), { opcode: OPCODES.continuation, isLast: false }),
      ),
    ]),
    encodeFrame(Buffer.from([0x03]), close),
    encodeFrame(Buffer.from([0x00, 0x01]), close),
    encodeFrame(Buffer.from([0x03, 0xe8, 0xff]), close),
    encodeFrame('', close),
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
  ]);
}
