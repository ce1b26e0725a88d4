import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

const HEADER_BYTES = 12;
const QUESTION_TYPES = { A: 1, AAAA: 28 };

export const NAME_SERVER = '127.0.0.1';

/** Flags of a response (RFC 1035 section 4.1.1). The client repeats a truncated one over TCP. */
const FLAGS_TRUNCATED = 0x8380;
const FLAGS_FOUND = 0x8180;

const PORT = 53;
const MAX_MESSAGE_BYTES = 65_535;

/**
 * Starts a DNS server that answers every query with as many addresses as fit into a response over TCP: 4,000 IPv4
 * addresses or 2,300 IPv6 addresses.
 */
export async function startDnsFloodServer() {
  const udp = createSocket('udp4');
  udp.on('message', (query, { address, port }) => {
    udp.send(encodeResponse(query, FLAGS_TRUNCATED, []), port, address);
  });
  udp.bind(PORT, NAME_SERVER);
  const tcp = createServer((connection) => {
    connection.on('error', () => connection.destroy());
    connection.on('data', (data: Buffer) => {
      const query = data.subarray(2);
      const type = query.readUInt16BE(findQuestionEnd(query) - 4);
      const records = type === QUESTION_TYPES.AAAA ? IPV6_RECORDS : IPV4_RECORDS;
      const response = encodeResponse(query, FLAGS_FOUND, records);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(response.length);
      connection.write(Buffer.concat([length, response]));
    });
  });
  tcp.listen(PORT, NAME_SERVER);
  await Promise.all([once(udp, 'listening'), once(tcp, 'listening')]);
  // It is always hostile.
  return { maxBytesPerConnection: 0, setAttacking: () => undefined };
}

/** Private addresses: the service checks all of them, and connects to none. */
const IPV4_RECORDS = createRecords(QUESTION_TYPES.A, Buffer.of(10, 0, 0, 0));
const IPV6_RECORDS = createRecords(QUESTION_TYPES.AAAA, Buffer.from(`fd${'00'.repeat(15)}`, 'hex'));

function createRecords(type: number, firstAddress: Buffer): Buffer[] {
  const recordBytes = 12 + firstAddress.length;
  const count = Math.floor((MAX_MESSAGE_BYTES - 300) / recordBytes);
  return Array.from({ length: count }, (_, index) => {
    const address = Buffer.from(firstAddress);
    address.writeUInt16BE(index, address.length - 2);
    const fields = Buffer.from('c00c00000001000000000000', 'hex');
    fields.writeUInt16BE(type, 2);
    fields.writeUInt16BE(address.length, 10);
    return Buffer.concat([fields, address]);
  });
}

function encodeResponse(query: Buffer, flags: number, records: readonly Buffer[]): Buffer {
  const header = Buffer.from(query.subarray(0, HEADER_BYTES));
  header.writeUInt16BE(flags, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  header.writeUInt32BE(0, 8);
  return Buffer.concat([header, query.subarray(HEADER_BYTES, findQuestionEnd(query)), ...records]);
}

/** The name ends with an empty label, and then the type and the class follow. */
function findQuestionEnd(query: Buffer): number {
  return query.indexOf(0, HEADER_BYTES) + 5;
}
