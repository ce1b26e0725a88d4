import { expect, it } from 'vitest';
import { encodeFrame, RawWebSocket, WS_OPCODES } from '../helpers/network/raw-websocket-client.ts';
import { LogCapture } from '../helpers/service/log-capture.ts';
import { useTestEnvironment } from '../helpers/service/test-environment.ts';

const logs = new LogCapture('error');
const environment = useTestEnvironment({ overrides: { log: logs.log } });

it.each([
  ['an unknown opcode', encodeFrame('{}', { opcode: 3 })],
  ['a reserved bit', encodeFrame('{}', { opcode: WS_OPCODES.text | 0x40 })],
  ['no mask', Buffer.from('\x81\x02{}', 'latin1')],
  ['text that is not UTF-8', encodeFrame(Buffer.from([0xff, 0xfe]))],
  ['20,000 bytes', encodeFrame('x'.repeat(20_000))],
  ['an announced length of 2^63', Buffer.from('81ff80'.padEnd(30, '0'), 'hex')],
  ['a long ping', encodeFrame('x'.repeat(126), { opcode: WS_OPCODES.ping })],
  ['a continuation of nothing', encodeFrame('{}', { opcode: WS_OPCODES.continuation })],
  ['half of a close code', encodeFrame(Buffer.from([3]), { opcode: 8 })],
  ['an HTTP request', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
])('disconnects only the quote socket that sends %s', async (_case, bytes) => {
  const other = await environment.newWallet().openSocket();
  const socket = await RawWebSocket.connect(environment.service.url);
  await socket.waitForText('"challenge"');
  socket.send(bytes);
  await socket.waitForClose();
  expect(await other.drainMessages()).toEqual([]);
  expect(logs.lines).toEqual([]);
  await other.close();
});
