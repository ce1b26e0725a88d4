import type { Dice } from '../../../src/demo/test-mint/dice.ts';
import { strangeText } from './strange-text.ts';
import { ENDPOINTS } from './targets.ts';

/** Bytes on a connection of their own, which need not be HTTP. */
export interface FramingCase {
  bytes: Buffer;
  /** Whether the server must say something to it, and not only hang up. */
  mustBeAnswered: boolean;
  /** We are gone before it could answer. */
  hangsUp: boolean;
}

const PIPELINED = 20;
const MANY_HEADERS = 3_000;

/** Rolls bytes whose framing is wrong, or right in a way that few clients use. */
export function framingCase(dice: Dice): FramingCase {
  const { method } = dice.pick(ENDPOINTS);
  const path = dice.pick(PATHS);
  const host = 'Host: x\r\n';
  const get = `GET ${path} HTTP/1.1\r\n${host}`;
  const post = `${dice.pick(['POST', 'PATCH', method])} ${path} HTTP/1.1\r\n${host}`;
  const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
  const cut = (text: string) => text.slice(0, Math.floor(dice.roll() * text.length));
  const answered = (text: string) => framed(text, { mustBeAnswered: true });
  const silent = (text: string) => framed(text, { mustBeAnswered: false });
  const whole = `${get}Connection: close\r\n\r\n`;
  return dice.pick<() => FramingCase>([
    () =>
      answered(
        `GET ${path} HTTP/${dice.pick(['9.9', '1.2', '11', '1.1.1', 'x', '', '-1.1'])}\r\n${host}\r\n`,
      ),
    () => silent(`GET ${path} HTTP/${dice.pick(['0.9', '1.0', '2.0'])}\r\n${host}\r\n`),
    () => answered(`GET  ${path}  HTTP/1.1\r\n${host}\r\n`),
    () => silent(`GET ${path}\r\n`),
    () => silent(`GET ${path}\r\n\r\n`),
    () => silent(whole.replaceAll('\r\n', dice.pick(['\n', '\r', '\n\r', '\r\r\n', '\u0000\r\n']))),
    () =>
      silent(
        whole.replace(
          'x\r\n',
          dice.pick(['x\r\n folded\r\n', 'x\r\n\tfolded\r\n', 'x\ry\r\n', 'x\ny\r\n']),
        ),
      ),
    () => silent(` ${whole}`),
    () => silent(`\r\n\r\n\r\n${whole}`),
    () => answered(`${get}${strangeText(dice, 200)}\r\n\r\n`),
    () => answered(`${get}: nothing\r\n\r\n`),
    () => answered(`${get}Name : value\r\n\r\n`),
    () =>
      silent(
        whole
          .repeat(1 + Math.floor(dice.roll() * PIPELINED))
          .replaceAll('Connection: close\r\n', ''),
      ),
    () => silent(`${get}\r\n`.repeat(PIPELINED) + strangeText(dice, 50)),
    () => silent(cut(whole)),
    () => ({ ...silent(cut(whole)), hangsUp: true }),
    () => ({ ...silent(`${post}Content-Length: 10000\r\n\r\n{"a":`), hangsUp: true }),
    () => silent(`${post}Content-Length: 10000\r\n\r\n{"a":`),
    () =>
      answered(
        `${post}Content-Length: ${dice.pick(['-1', '1e3', '0x10', '', '+5', '5 5', '99999999999999999999', 'x'])}\r\n\r\nhello`,
      ),
    () => answered(`${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!`),
    () => answered(`${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
    () =>
      answered(
        `${post}Transfer-Encoding: ${dice.pick(['chunked, identity', 'xchunked', 'gzip, x', 'identity'])}\r\n\r\n0\r\n\r\n`,
      ),
    () =>
      silent(`${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
    () =>
      silent(
        `${chunked}${dice.pick(['-1', 'ffffffffffffffffff', 'zz', '0x5', ' 5', '5 ', ''])}\r\nhello\r\n0\r\n\r\n`,
      ),
    () => silent(`${chunked}5;${strangeText(dice, 20_000)}\r\nhello\r\n0\r\n\r\n`),
    () => silent(`${chunked}5\nhello\n0\n\n`),
    () => silent(`${chunked}5\r\nhelloworld\r\n0\r\n\r\n`),
    () => silent(`${chunked}${'1\r\nx\r\n'.repeat(5_000)}0\r\n\r\n`),
    () => silent(`${chunked}0\r\nX-Cashu: x\r\n__proto__: x\r\n${'T: x\r\n'.repeat(500)}\r\n`),
    () => silent(`${chunked}5\r\nhe`),
    () => silent(`${get}${'X: y\r\n'.repeat(MANY_HEADERS)}\r\n`),
    () => answered(`${get}X-Cashu: ${'c'.repeat(dice.pick([66_000, 200_000]))}\r\n\r\n`),
    () => silent('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u0000\u0000\u0000\u0004'),
    () => silent('CONNECT elsewhere.test:443 HTTP/1.1\r\nHost: x\r\n\r\n'),
    () => silent(`\u0016\u0003\u0001\u0002\u0000\u0001\u0000${strangeText(dice, 200)}`),
    () =>
      silent(
        Array.from({ length: 50 }, () => String.fromCharCode(Math.floor(dice.roll() * 256))).join(
          '',
        ),
      ),
    () => silent(`${strangeText(dice, 70_000)}\r\n\r\n`),
    () =>
      silent(
        `GET ${path} HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n${strangeText(dice, 100)}`,
      ),
    () => silent(`${post}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`),
  ])();
}

function framed(text: string, { mustBeAnswered }: { mustBeAnswered: boolean }): FramingCase {
  return { bytes: Buffer.from(text, 'latin1'), mustBeAnswered, hangsUp: false };
}

/** One of each dialect at least. */
const PATHS = [
  '/api/v2/info',
  '/api/v2/user/mint',
  '/api/v2/ws/quote',
  '/.well-known/lnurlp/alice',
  '/lnurl/verify/x',
  '/.well-known/nostr.json',
  '/nowhere',
] as const;
