import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import ipaddr from 'ipaddr.js';

export type DnsRecord =
  | { type: 'A' | 'AAAA'; address: string; name?: string }
  | { type: 'CNAME'; target: string; name?: string };

/** The response to a query. An empty list means NXDOMAIN (no such name), and `silence` means no response. */
export type DnsAnswer = DnsRecord[] | 'server failure' | 'silence';

export interface FakeDnsServer {
  address: string;
  close(): Promise<void>;
}

export type DnsQuestionType = 'A' | 'AAAA';

/** Numbers of record types (RFC 1035 section 3.2.2, RFC 3596). */
const RECORD_TYPES = { A: 1, CNAME: 5, AAAA: 28 } as const;
const CLASS_INTERNET = 1;

/** Clients cannot cache a record, so they send a query for each connection. */
const TTL_SECONDS = 0;

/** The second 16 bits of a response's header: flags and response code (RFC 1035 section 4.1.1). */
const FLAGS_FOUND = 0x8180;
const FLAGS_SERVER_FAILURE = 0x8182;
const FLAGS_NO_SUCH_NAME = 0x8183;

const HEADER_BYTES = 12;

export async function startFakeDnsServer(
  getAnswer: (name: string, type: DnsQuestionType) => DnsAnswer | Promise<DnsAnswer>,
): Promise<FakeDnsServer> {
  let isClosed = false;
  const socket = createSocket('udp4');
  const reply = async (query: Buffer, { address, port }: RemoteInfo) => {
    const question = parseQuestion(query);
    const answer = await getAnswer(question.name, question.type === RECORD_TYPES.A ? 'A' : 'AAAA');
    if (answer !== 'silence' && !isClosed) {
      socket.send(encodeResponse(query, question, answer), port, address);
    }
  };
  socket.on('message', (query, sender) => void reply(query, sender));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    close: () => {
      isClosed = true;
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}

interface Question {
  name: string;
  type: number;
  endOffset: number;
}

function parseQuestion(query: Buffer): Question {
  const labels: string[] = [];
  let offset = HEADER_BYTES;
  // Each label follows its length. A length of 0 ends the name, and then the type and the class follow.
  while (query.readUInt8(offset) > 0) {
    const labelEnd = offset + 1 + query.readUInt8(offset);
    labels.push(query.toString('latin1', offset + 1, labelEnd));
    offset = labelEnd;
  }
  return {
    name: labels.join('.').toLowerCase(),
    type: query.readUInt16BE(offset + 1),
    endOffset: offset + 5,
  };
}

function encodeResponse(
  query: Buffer,
  question: Question,
  answer: Exclude<DnsAnswer, 'silence'>,
): Buffer {
  const records = answer === 'server failure' ? [] : answer;
  const header = Buffer.alloc(HEADER_BYTES);
  const queryId = query.readUInt16BE(0);
  const questionCount = 1;
  header.writeUInt16BE(queryId, 0);
  header.writeUInt16BE(responseFlags(answer), 2);
  header.writeUInt16BE(questionCount, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([
    header,
    query.subarray(HEADER_BYTES, question.endOffset),
    ...records.map((record) => encodeRecord(record, question.name)),
  ]);
}

function responseFlags(answer: Exclude<DnsAnswer, 'silence'>): number {
  if (answer === 'server failure') {
    return FLAGS_SERVER_FAILURE;
  }
  return answer.length === 0 ? FLAGS_NO_SUCH_NAME : FLAGS_FOUND;
}

function encodeRecord(record: DnsRecord, queriedName: string): Buffer {
  const data =
    record.type === 'CNAME'
      ? encodeName(record.target)
      : Buffer.from(ipaddr.parse(record.address).toByteArray());
  const fixedFields = Buffer.alloc(10);
  fixedFields.writeUInt16BE(RECORD_TYPES[record.type], 0);
  fixedFields.writeUInt16BE(CLASS_INTERNET, 2);
  fixedFields.writeUInt32BE(TTL_SECONDS, 4);
  fixedFields.writeUInt16BE(data.length, 8);
  return Buffer.concat([encodeName(record.name ?? queriedName), fixedFields, data]);
}

function encodeName(name: string): Buffer {
  const labels = name
    .split('.')
    .map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label, 'latin1')]));
  return Buffer.concat([...labels, Buffer.of(0)]);
}
