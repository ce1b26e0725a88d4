import type { Dice } from '../../../demo/test-mint/dice.ts';
import { strangeText } from './strange.ts';

/** Bytes for a connection of their own, which need not be HTTP. */
export interface FramingCase {
  bytes: Buffer;
  /** The server must respond, and not only close the connection. */
  mustBeAnswered: boolean;
  /** The client disconnects before the server can respond. */
  hangsUp: boolean;
}

const PIPELINED = 20;

/** At least one path of each response format. */
const PATHS = [
  '/api/v2/info',
  '/api/v2/user/mint',
  '/api/v2/ws/quote',
  '/.well-known/lnurlp/alice',
  '/lnurl/verify/x',
  '/.well-known/nostr.json',
  '/nowhere',
];

/** Makes bytes whose framing is wrong, or correct in an unusual way. */
export function framingCase(dice: Dice): FramingCase {
  const path = dice.pick(PATHS);
  const host = 'Host: x\r\n';
  const get = `GET ${path} HTTP/1.1\r\n${host}`;
  const post = `${dice.pick(['POST', 'PATCH', 'GET'])} ${path} HTTP/1.1\r\n${host}`;
  const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
  const whole = `${get}Connection: close\r\n\r\n`;
  const cut = whole.slice(0, Math.floor(dice.roll() * whole.length));
  const length = dice.pick(['-1', '1e3', '0x10', '', '+5', '5 5', '99999999999999999999', 'x']);
  const encoding = dice.pick(['chunked, identity', 'xchunked', 'gzip, x', 'identity']);
  const chunkSize = dice.pick(['-1', 'ffffffffffffffffff', 'zz', '0x5', ' 5', '5 ', '']);
  const answered = [
    `GET ${path} HTTP/${dice.pick(['9.9', '1.2', '11', '1.1.1', 'x', '', '-1.1'])}\r\n${host}\r\n`,
    `GET  ${path}  HTTP/1.1\r\n${host}\r\n`,
    `${get}${strangeText(dice, 200)}\r\n\r\n`,
    `${get}: nothing\r\n\r\n`,
    `${get}Name : value\r\n\r\n`,
    `${post}Content-Length: ${length}\r\n\r\nhello`,
    `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`,
    `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${post}Transfer-Encoding: ${encoding}\r\n\r\n0\r\n\r\n`,
    `${get}X-Cashu: ${'c'.repeat(dice.pick([66_000, 200_000]))}\r\n\r\n`,
  ];
  const silent = [
    `GET ${path} HTTP/${dice.pick(['0.9', '1.0', '2.0'])}\r\n${host}\r\n`,
    `GET ${path}\r\n\r\n`,
    whole.replaceAll('\r\n', dice.pick(['\n', '\r', '\n\r', '\r\r\n', '\u0000\r\n'])),
    whole.replace('x\r\n', dice.pick(['x\r\n folded\r\n', 'x\ry\r\n', 'x\ny\r\n'])),
    ` ${whole}`,
    `\r\n\r\n\r\n${whole}`,
    `${get}\r\n`.repeat(1 + Math.floor(dice.roll() * PIPELINED)),
    `${get}\r\n`.repeat(PIPELINED) + strangeText(dice, 50),
    cut,
    `${post}Content-Length: 10000\r\n\r\n{"a":`,
    `${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${chunked}${chunkSize}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}5;${strangeText(dice, 20_000)}\r\nhello\r\n0\r\n\r\n`,
    `${chunked}5\nhello\n0\n\n`,
    `${chunked}${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`,
    `${chunked}0\r\nX-Cashu: x\r\n__proto__: x\r\n${'T: x\r\n'.repeat(500)}\r\n`,
    `${chunked}5\r\nhe`,
    `${get}${'X: y\r\n'.repeat(3_000)}\r\n`,
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004',
    'CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
    `\u0016\u0003\u0001\u0002\u0000\u0001\u0000${strangeText(dice, 200)}`,
    `${strangeText(dice, 70_000)}\r\n\r\n`,
    `${get}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${strangeText(dice, 100)}`,
    `${post}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
  ];
  const mustBeAnswered = dice.happens(0.3);
  return {
    bytes: Buffer.from(dice.pick(mustBeAnswered ? answered : silent), 'latin1'),
    mustBeAnswered,
    hangsUp: !mustBeAnswered && dice.happens(0.1),
  };
}
