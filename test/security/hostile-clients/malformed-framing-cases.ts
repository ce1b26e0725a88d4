import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { encodeFrame, WS_OPCODES } from '../../helpers/network/raw-websocket-client.ts';
import {
  type FuzzUser,
  generateAuthorization,
  generateMarker,
  mutate,
} from './malformed-request-cases.ts';

export const SOCKET_PATH = '/api/v2/ws/quote';

const PATHS = [
  ...['/api/v2/info', '/api/v2/user/mint', SOCKET_PATH, '/.well-known/lnurlp/alice'],
  ...['/lnurl/verify/x', '/.well-known/nostr.json', '/nowhere'],
];

/**
 * Generates bytes with invalid or unusual HTTP framing. If `isResponseRequired`, the server must respond before it
 * closes the connection. acceptance/http-connections.test.ts covers common mistakes.
 */
export function generateFramingCase(random: SeededRandom) {
  const path = random.pick(PATHS);
  const host = 'Host: x\r\n';
  const getHead = `GET ${path} HTTP/1.1\r\n${host}`;
  const postHead = `${random.pick(['POST', 'PATCH', 'GET'])} ${path} HTTP/1.1\r\n${host}`;
  const chunkedHead = `${postHead}Transfer-Encoding: chunked\r\n\r\n`;
  const completeRequest = `${getHead}Connection: close\r\n\r\n`;
  const length = random.pick(['-1', '1e3', '0x10', '', '+5', '5 5', '99999999999999999999', 'x']);
  const encoding = random.pick(['chunked, identity', 'xchunked', 'gzip, x', 'identity']);
  const chunkSize = random.pick(['-1', 'ffffffffffffffffff', 'zz', '0x5', ' 5', '5 ', '']);
  const casesWithResponse = [
    `GET ${path} HTTP/${random.pick(['9.9', '1.2', '11', '1.1.1', 'x', '', '-1.1'])}\r\n${host}\r\n`,
    `${getHead}${'{}[]"'.repeat(40)}\r\n\r\n`,
    `${postHead}Content-Length: ${length}\r\n\r\nhello`,
    `${postHead}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `${postHead}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
    `${getHead}X-Cashu: ${'c'.repeat(random.pick([66_000, 200_000]))}\r\n\r\n`,
  ];
  const casesWithOptionalResponse = [
    `GET ${path}\r\n\r\n`,
    completeRequest.replaceAll('\r\n', random.pick(['\n', '\r', '\n\r', '\r\r\n', '\u0000\r\n'])),
    completeRequest.replace('x\r\n', random.pick(['x\r\n folded\r\n', 'x\ry\r\n', 'x\ny\r\n'])),
    `${getHead}\r\n`.repeat(20) + mutate(random, completeRequest),
    completeRequest.slice(0, Math.floor(random.next() * completeRequest.length)),
    `${postHead}Content-Length: 10000\r\n\r\n{"a":`,
    `${postHead}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${chunkedHead}${chunkSize}\r\nhello\r\n0\r\n\r\n`,
    `${chunkedHead}5;${mutate(random, 'a=b', 20_000)}\r\nhello\r\n0\r\n\r\n`,
    `${chunkedHead}${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`,
    `${chunkedHead}0\r\nX-Cashu: x\r\n__proto__: x\r\n${'T: x\r\n'.repeat(500)}\r\n`,
    `${getHead}${'X: y\r\n'.repeat(3_000)}\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004',
    'CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
    `\u0016\u0003\u0001\u0002\u0000\u0001\u0000${mutate(random, 'x')}`,
    `${mutate(random, 'x', 70_000)}\r\n\r\n`,
    `${getHead}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${mutate(random, 'x')}`,
    `${postHead}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
  ];
  const isResponseRequired = random.chance(0.3);
  const bytes = Buffer.from(
    random.pick(isResponseRequired ? casesWithResponse : casesWithOptionalResponse),
    'latin1',
  );
  return { bytes, isResponseRequired };
}

/** Generates the frames that a client sends on one quote socket. After a fatal frame, the server must close. */
export function generateSocketCase(random: SeededRandom, user: FuzzUser) {
  const marker = generateMarker(random);
  const count = 1 + Math.floor(random.next() * 12);
  const shouldAuthenticate = random.chance(0.4);
  const frames = Array.from({ length: count }, () => generateToleratedFrames(random, marker));
  const endsWithFatalFrame = random.chance(0.5);
  const fatalFrame =
    !shouldAuthenticate && random.chance(0.4)
      ? generateWrongChallengeResponse(random, user)
      : generateInvalidFrame(random);
  return {
    shouldAuthenticate,
    frames: endsWithFatalFrame ? [...frames, fatalFrame] : frames,
    endsWithFatalFrame,
    marker,
  };
}

function generateToleratedFrames(random: SeededRandom, marker: string): Buffer {
  const message = JSON.stringify({ type: marker, payload: mutate(random, marker, 1_000) });
  return random.pick([
    encodeFrame(message),
    encodeFrame(mutate(random, message, 5_000)),
    encodeFrame(message, { opcode: WS_OPCODES.binary }),
    encodeFrame(`{"type":"ping","type":"${marker}","__proto__":{"type":"ping"}}`),
    encodeFrame('['.repeat(10_000)),
    encodeFrame(''),
    Buffer.concat([
      encodeFrame('{"type":', { isFinal: false }),
      encodeFrame('', { opcode: WS_OPCODES.ping }),
      encodeFrame('"ping"}', { opcode: WS_OPCODES.continuation }),
    ]),
  ]);
}

function generateWrongChallengeResponse(random: SeededRandom, user: FuzzUser): Buffer {
  const authorization = generateAuthorization(random, user, SOCKET_PATH, 'POST');
  return encodeFrame(JSON.stringify({ type: 'challenge-response', payload: authorization ?? 7 }));
}

function generateInvalidFrame(random: SeededRandom): Buffer {
  const text = '{"type":"ping"}';
  return random.pick([
    encodeFrame(text, { opcode: random.pick([3, 7, 11, 15]) }),
    // Reserved bits set.
    encodeFrame(text, { opcode: WS_OPCODES.text | (random.pick([1, 2, 4]) << 4) }),
    // Not masked.
    Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]),
    encodeFrame(Buffer.from([0xff, 0xfe, 0xc3, 0x28])),
    encodeFrame('x'.repeat(20_000)),
    // A frame that announces 2^63 bytes.
    Buffer.from('81ff80'.padEnd(30, '0'), 'hex'),
    encodeFrame('x'.repeat(126), { opcode: WS_OPCODES.ping }),
    encodeFrame(text, { opcode: WS_OPCODES.continuation }),
    encodeFrame(Buffer.from([0x03]), { opcode: 8 }),
    Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
  ]);
}
