import type { SeededRandom } from '../../../demo/test-mint/seeded-random.ts';
import { mutate } from './malformed-request-cases.ts';

const SOCKET_PATH = '/api/v2/ws/quote';

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
